//! Data of members that were removed from the cluster: the operator names them in an annotation of the
//! pod, and they are set aside before anything is judged. An annotation that was there when the
//! container started is in the file; one that comes later is honoured at the next start.

use gate::{Action, Grant, REMOVED_ANNOTATION};
use serde_json::json;

use crate::{
    Result, annotations,
    args::Gate,
    judge::{Place, parse_id},
    look,
    telemetry::{Level, log},
    volume,
};

/// Sets the data of removed members aside; what to tell people about it.
///
/// Invariant: only data whose own log names one of these members is touched
/// (`data_of_a_removed_member_is_set_aside_and_no_other`).
pub(crate) fn honour(args: &Gate, file: &str) -> Result<String> {
    let ids = parse(file);
    if ids.is_empty() {
        return Ok(String::new());
    }
    for place in [Place::Data, Place::Root] {
        let head = look::look_at_head(&args.volume, place)?;
        let Some(id) = head
            .map(|head| head.member_id)
            .filter(|id| ids.contains(id))
        else {
            continue;
        };
        volume::set_aside_removed(&args.volume, place, id)?;
        let fields = json!({"member": format!("{id:x}")});
        log(
            Level::Info,
            "set the data of a removed member aside",
            &fields,
        );
    }
    Ok(describe(args, &ids))
}

/// Refuses to go on from the data of a member that was removed after this wait began.
pub(crate) fn check(file: &str, grant: &Grant) -> std::result::Result<(), String> {
    let (Action::Resume { member_id, .. } | Action::Recover { member_id, .. }) = &grant.action
    else {
        return Ok(());
    };
    match parse_id(member_id) {
        Some(id) if parse(file).contains(&id) => Err(format!(
            "it is for member {id:x}, which was removed from the cluster"
        )),
        Some(_) | None => Ok(()),
    }
}

/// The members that the annotation names; what is no ID is ignored.
pub(crate) fn parse(file: &str) -> Vec<u64> {
    let value = match annotations::find(file, REMOVED_ANNOTATION) {
        Some(Ok(value)) => value,
        Some(Err(why)) => {
            let fields = json!({"annotation": REMOVED_ANNOTATION, "error": why});
            log(Level::Warn, "an annotation cannot be read", &fields);
            return Vec::new();
        }
        None => return Vec::new(),
    };
    let mut ids = Vec::new();
    for word in value.split(',').map(str::trim) {
        match parse_id(word) {
            Some(id) => ids.push(id),
            None if word.is_empty() => {}
            None => {
                let fields = json!({"annotation": REMOVED_ANNOTATION, "word": word});
                log(Level::Warn, "no member ID", &fields);
            }
        }
    }
    ids
}

/// What was set aside, now or at an earlier start.
fn describe(args: &Gate, ids: &[u64]) -> String {
    let told: Vec<String> = ids
        .iter()
        .filter(|id| volume::removed(&args.volume, **id).is_dir())
        .map(|id| {
            format!(
                "; the data of member {id:x}, which was removed from the cluster, was moved to \
                 removed-{id:x}"
            )
        })
        .collect();
    told.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_names_one_or_several_members() {
        let file = |value: &str| format!("a=\"b\"\n{REMOVED_ANNOTATION}=\"{value}\"\n");
        for (value, expected) in [
            ("", vec![]),
            ("a1", vec![0xa1]),
            ("a1,B2, 00c3 ,", vec![0xa1, 0xb2, 0xc3]),
            ("0,0x1,zz,d4", vec![0xd4]),
        ] {
            assert_eq!(parse(&file(value)), expected, "{value}");
        }
        assert_eq!(parse("a=\"b\"\n"), Vec::<u64>::new());
        assert_eq!(
            parse(&format!("{REMOVED_ANNOTATION}=a1")),
            Vec::<u64>::new()
        );
    }
}
