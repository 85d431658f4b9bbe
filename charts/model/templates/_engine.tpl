{{/*
Arguments after the command, one list item each. JSON is YAML, and keeps integers whole:
a number printed otherwise becomes 1e+06 when it comes from a values file.
*/}}
{{- define "model.arguments" -}}
{{- range .arguments }}
- {{ toJson . }}
{{- end }}
{{- range $name, $value := .flags }}
{{- if kindIs "bool" $value }}
- {{ printf "--%s%s" (ternary "" "no-" $value) $name | toJson }}
{{- else if kindIs "string" $value }}
- {{ printf "--%s=%s" $name $value | toJson }}
{{- else if kindIs "slice" $value }}
- {{ printf "--%s" $name | toJson }}
{{- range $value }}
- {{ toJson . }}
{{- end }}
{{- else }}
- {{ printf "--%s=%s" $name (toRawJson $value) | toJson }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Environment: literal values, then those from Secrets.
*/}}
{{- define "model.env" -}}
{{- range $name, $value := .env }}
- name: {{ $name }}
  value: {{ toJson $value }}
{{- end }}
{{- range $name, $from := .secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.secret }}
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
