{{- /* Whether a kind of Prometheus Operator is asked for, and this Kubernetes knows it: (list . value kind). */ -}}
{{- define "monitoring.has" -}}
{{- $root := index . 0 }}{{- $asked := index $root.Values.metrics (index . 1) }}
{{- if and $asked.enabled ($root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 2))) }}yes{{ end }}
{{- end }}
{{- /* Kinds that are asked for and not known. */ -}}
{{- define "monitoring.missing" -}}
{{- $root := . }}
{{- range $value, $kind := dict "serviceMonitor" "ServiceMonitor" "podMonitor" "PodMonitor" "prometheusRule" "PrometheusRule" }}
{{- if and (index $root.Values.metrics $value).enabled (not (include "monitoring.has" (list $root $value $kind))) }}{{ $kind }} {{ end }}
{{- end }}
{{- end }}
{{- /* A file of rules or panels with its places filled in: (list . path). */ -}}
{{- define "monitoring.filled" -}}
{{- $root := index . 0 }}
{{- $root.Files.Get (index . 1) | replace "@cluster" $root.Values.metrics.clusterLabel | replace "@runbooks" $root.Values.metrics.prometheusRule.runbooks | replace "@operator" $root.Release.Namespace | trim }}
{{- end }}
