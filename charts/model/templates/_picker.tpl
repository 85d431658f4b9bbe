{{/*
Name of the endpoint picker's objects.
*/}}
{{- define "model.pickerName" -}}
{{ .Release.Name }}-epp
{{- end -}}

{{/*
The picker's configuration file.
*/}}
{{- define "model.pickerConfig" -}}
{{- toYaml .Values.picker.config -}}
{{- end -}}

{{/*
How many ports of a pod answer requests: the pool has a target port for each.
*/}}
{{- define "model.targetPorts" -}}
{{- $most := 1 -}}
{{- range .Values.roles }}{{ $most = max $most (int .endpoints) }}{{ end -}}
{{- $most -}}
{{- end -}}
