{{- define "operator.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "operator.image" -}}
{{- with .Values.image -}}
{{ required "image.repository is empty: name the image that your nodes pull, such as --set image.repository=registry.example.org/team/etcd-operator (`cargo xtask image --push` makes one)" .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}
{{- define "operator.selector" -}}
app.kubernetes.io/name: etcd-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- /* Name of Service, Secret and both configurations of the webhook; empty where there is none. */ -}}
{{- define "operator.webhook" -}}
{{- if and .Values.webhook (not .Values.namespaces) }}{{ include "operator.name" . }}-webhook{{ end }}
{{- end }}
{{- /* Exactly what the operator does, and nothing it might. */ -}}
{{- define "operator.rules" -}}
- apiGroups: [etcd.etcd.io]
  resources: [etcdclusters]
  verbs: [get, list, watch, create, patch]
- apiGroups: [etcd.etcd.io]
  resources: [etcdclusters/status]
  verbs: [update, patch]
- apiGroups: [etcd.etcd.io]
  resources: [etcdusers, etcdroles]
  verbs: [list, watch]
- apiGroups: [etcd.etcd.io]
  resources: [etcdusers/status, etcdroles/status]
  verbs: [update]
- apiGroups: [etcd.etcd.io]
  resources: [etcdbackups]
  verbs: [list, watch]
- apiGroups: [etcd.etcd.io]
  resources: [etcdbackups/status]
  verbs: [update]
- apiGroups: [etcd.etcd.io]
  resources: [etcdbackups/finalizers]
  verbs: [update]
- apiGroups: [etcd.etcd.io]
  resources: [etcdrestores]
  verbs: [list, watch]
- apiGroups: [etcd.etcd.io]
  resources: [etcdrestores/status]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, create, delete]
- apiGroups: [etcd.etcd.io]
  resources: [etcdclusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods/ephemeralcontainers]
  verbs: [patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [certificaterequests]
  verbs: [get]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
