//! The dashboards as Grafana reads them: the fleet, a cluster, its members. Any data source that speaks PromQL will do; which
//! one is a variable.

mod panels;

use serde_json::{Value, json};

use self::panels::{CLUSTER, FLEET, MEMBER};

/// A dashboard.
pub(crate) struct Dashboard {
    /// Name of its file, and its UID.
    name: &'static str,
    title: &'static str,
    /// Labels that are chosen at the top, each with the metric whose values they are.
    choices: &'static [(&'static str, &'static str)],
    panels: &'static [Panel],
}

/// A panel.
pub(crate) struct Panel {
    title: &'static str,
    help: &'static str,
    look: Look,
    /// Of 24.
    width: u64,
    /// As Grafana calls it.
    unit: &'static str,
    /// Expression and legend of each line.
    queries: &'static [(&'static str, &'static str)],
}

/// How a panel looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// One number; from this one on it is red, if there is one.
    Number(Option<u32>),
    /// Lines over time.
    Lines,
    /// Rows of what is so now.
    Table,
}

const ALL: [Dashboard; 3] = [FLEET, CLUSTER, MEMBER];

/// Each dashboard by the name of its file, with the places that the installer fills in.
pub fn all() -> Vec<(&'static str, Value)> {
    ALL.iter()
        .map(|board| (board.name, dashboard(board)))
        .collect()
}

/// Every expression in them.
pub fn queries() -> Vec<&'static str> {
    let panels = ALL.iter().flat_map(|board| board.panels);
    let queries = panels.flat_map(|panel| panel.queries);
    queries.map(|(query, _)| *query).collect()
}

fn dashboard(board: &Dashboard) -> Value {
    let (mut column, mut row) = (0, 0);
    let mut panels = Vec::new();
    for (id, panel) in (1_u64..).zip(board.panels) {
        if column + panel.width > 24 {
            column = 0;
            row += HEIGHT;
        }
        panels.push(panel_of(panel, id, (column, row)));
        column += panel.width;
    }
    let data_source = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "current": {}, "hide": 0, "refresh": 1, "regex": "", "options": [], "includeAll": false, "multi": false,
    });
    let mut list = vec![data_source];
    let mut chosen: Vec<&str> = Vec::new();
    for (label, metric) in board.choices {
        let name = label.trim_start_matches('@');
        let filter: Vec<String> = chosen
            .iter()
            .map(|label| format!("{label}=~\"${}\"", label.trim_start_matches('@')))
            .collect();
        let query = format!("label_values({metric}{{{}}}, {label})", filter.join(","));
        list.push(json!({
            "name": name, "label": name, "type": "query", "datasource": source(),
            "definition": query, "query": {"query": query, "refId": "A"},
            "refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"}, "hide": 0, "regex": "", "options": [],
        }));
        chosen.push(label);
    }
    json!({
        "uid": board.name, "title": board.title, "tags": ["etcd"], "schemaVersion": 39, "version": 1,
        "editable": true, "graphTooltip": 1, "timezone": "", "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"}, "timepicker": {}, "annotations": {"list": []}, "links": [{
            "type": "dashboards", "title": "etcd", "tags": ["etcd"], "asDropdown": false, "includeVars": true,
            "keepTime": true, "icon": "", "targetBlank": false, "tooltip": "", "url": "",
        }],
        "templating": {"list": list}, "panels": panels,
    })
}

/// Of a panel.
const HEIGHT: u64 = 8;

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn panel_of(panel: &Panel, id: u64, (x, y): (u64, u64)) -> Value {
    let instant = !matches!(panel.look, Look::Lines);
    let targets: Vec<Value> = ('A'..)
        .zip(panel.queries)
        .map(|(letter, (query, legend))| {
            json!({
                "refId": letter.to_string(), "datasource": source(), "expr": query, "legendFormat": legend,
                "instant": instant, "range": !instant,
                "format": if panel.look == Look::Table { "table" } else { "time_series" },
            })
        })
        .collect();
    let (kind, options, steps) = match panel.look {
        Look::Number(red) => {
            let mut steps = vec![json!({"color": "green", "value": null})];
            steps.extend(red.map(|red| json!({"color": "red", "value": red})));
            let options = json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "orientation": "auto",
            });
            ("stat", options, steps)
        }
        Look::Lines => {
            let options = json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            });
            (
                "timeseries",
                options,
                vec![json!({"color": "green", "value": null})],
            )
        }
        Look::Table => {
            let options = json!({"showHeader": true, "cellHeight": "sm"});
            (
                "table",
                options,
                vec![json!({"color": "green", "value": null})],
            )
        }
    };
    let mut made = json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.help, "datasource": source(),
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT},
        "targets": targets, "options": options,
        "fieldConfig": {"defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
    });
    if panel.look == Look::Table
        && let Some(made) = made.as_object_mut()
    {
        let hide = json!([{"id": "organize", "options": {"excludeByName": {"Time": true, "job": true, "instance": true, "endpoint": true, "container": true}}}]);
        made.insert("transformations".to_owned(), hide);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics;

    #[test]
    fn panels_name_only_what_is_in_the_table() {
        let series: BTreeSet<String> = metrics::all().flat_map(metrics::Metric::series).collect();
        for query in queries() {
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named = words.filter(|word| {
                ["etcd_", "grpc_server_", "process_"]
                    .iter()
                    .any(|it| word.starts_with(it))
            });
            let mut count = 0;
            for name in named {
                assert!(series.contains(name), "{name} in {query}");
                count += 1;
            }
            assert!(count > 0, "{query}");
        }
    }

    #[test]
    fn panels_stand_side_by_side_and_say_what_they_show() {
        for (name, board) in all() {
            let panels = board["panels"].as_array().unwrap();
            let mut taken = BTreeSet::new();
            for panel in panels {
                let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
                for column in at("x")..at("x") + at("w") {
                    assert!(
                        column < 24 && taken.insert((at("y"), column)),
                        "{name}: {panel}"
                    );
                }
                assert!(
                    panel["description"].as_str().unwrap().ends_with('.'),
                    "{name}: {panel}"
                );
            }
            assert!(panels.len() >= 8, "{name}");
        }
    }

    /// What is chosen at the top counts everywhere: a panel that forgets it shows other clusters.
    #[test]
    fn panels_of_one_cluster_show_no_other() {
        for board in [&ALL[1], &ALL[2]] {
            for (query, _) in board.panels.iter().flat_map(|panel| panel.queries) {
                let metrics =
                    query.matches("etcd_").count() + query.matches("grpc_server_").count();
                let filters = query.matches("@cluster=~\"$cluster\"").count();
                assert_eq!(metrics, filters, "{}: {query}", board.name);
            }
        }
    }
}
