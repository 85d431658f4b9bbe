{{/*
Labels that select an object's pods: name, instance and component only, because selectors
never change. Call with (dict "root" $ "component" "engine").
*/}}
{{- define "tokenworks-lib.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end -}}

{{/*
Labels of an object; the user's cannot replace ours. Call as the selector; "more" adds labels.
*/}}
{{- define "tokenworks-lib.labels" -}}
{{- $ours := include "tokenworks-lib.selector" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/part-of" "tokenworks" -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- mergeOverwrite (dict) (.more | default dict) .root.Values.labels $ours | toYaml -}}
{{- end -}}

{{/*
Name, namespace and labels of an object. "name" and "more" are optional.
*/}}
{{- define "tokenworks-lib.metadata" -}}
name: {{ .name | default .root.Release.Name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "tokenworks-lib.labels" . | nindent 2 }}
{{- end -}}

{{/*
The same for objects without a namespace.
*/}}
{{- define "tokenworks-lib.clusterMetadata" -}}
name: {{ .name | quote }}
labels:
  {{- include "tokenworks-lib.labels" . | nindent 2 }}
{{- end -}}
