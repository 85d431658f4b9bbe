{{/*
All flags: the given ones, and those that other values fill.
*/}}
{{- define "model.flags" -}}
{{- $names := .Values.engine.filledFlags -}}
{{- $filled := dict $names.servedName .Values.route.model $names.port .Values.engine.port -}}
{{- with $names.drain }}{{ $_ := set $filled . $.Values.timing.drainSeconds }}{{ end -}}
{{- mergeOverwrite (deepCopy .Values.engine.flags) $filled | toJson -}}
{{- end -}}

{{/*
Arguments after the command, one list item each. JSON keeps integers whole: a number printed
otherwise becomes 1e+06 when it comes from a values file.
*/}}
{{- define "model.arguments" -}}
{{- range .Values.engine.arguments }}
- {{ . | quote }}
{{- end }}
{{- range $name, $value := include "model.flags" . | fromJson }}
{{- include "model.flag" (dict "name" $name "value" $value) }}
{{- end }}
{{- end -}}

{{/*
One flag: `--x`, `--no-x`, `--x=text`, `--x` and an argument an item, or `--x=json`.
*/}}
{{- define "model.flag" -}}
{{- if kindIs "bool" .value }}
- {{ printf "--%s%s" (ternary "" "no-" .value) .name | quote }}
{{- else if kindIs "string" .value }}
- {{ printf "--%s=%s" .name .value | quote }}
{{- else if kindIs "slice" .value }}
- {{ printf "--%s" .name | quote }}
{{- range .value }}
- {{ . | quote }}
{{- end }}
{{- else }}
- {{ printf "--%s=%s" .name (toRawJson .value) | quote }}
{{- end }}
{{- end -}}

{{/*
Environment: literal values, then those from Secrets.
*/}}
{{- define "model.env" -}}
{{- range $name, $value := .env }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $from := .secretEnv }}
- name: {{ $name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.secret | quote }}
      key: {{ $from.key | quote }}
{{- end }}
{{- end -}}

{{/*
Resources of the engine: limits equal requests, except CPU, which has no limit.
*/}}
{{- define "model.resources" -}}
{{- $limits := dict "memory" .memory "ephemeral-storage" .ephemeralStorage -}}
{{- if .gpus }}{{ $_ := set $limits .gpuResource (toString (int64 .gpus)) }}{{ end -}}
requests:
  {{- mergeOverwrite (dict "cpu" .cpu) $limits | toYaml | nindent 2 }}
limits:
  {{- toYaml $limits | nindent 2 }}
{{- end -}}
