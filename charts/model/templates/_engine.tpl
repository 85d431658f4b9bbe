{{/*
All flags of a pod: the engine's, the role's, those that other values fill, and what a worker
of a group adds.
*/}}
{{- define "model.flags" -}}
{{- $names := .root.Values.engine.filledFlags -}}
{{- $flags := mergeOverwrite (deepCopy .root.Values.engine.flags) (deepCopy .role.flags) -}}
{{- with $names.servedName }}{{ $_ := set $flags . $.root.Values.route.model }}{{ end -}}
{{- with $names.port }}{{ $_ := set $flags . (include "model.enginePort" $ | int64) }}{{ end -}}
{{- with $names.drain }}{{ $_ := set $flags . (int64 $.root.Values.timing.drainSeconds) }}{{ end -}}
{{- if eq .part "worker" -}}
{{- $flags = mergeOverwrite $flags (deepCopy .role.group.worker.flags) -}}
{{- end -}}
{{- $flags | toJson -}}
{{- end -}}

{{/*
Where the engine listens: behind a sidecar, on a port of its own.
*/}}
{{- define "model.enginePort" -}}
{{- int64 (.role.enginePort | default .root.Values.engine.port) -}}
{{- end -}}

{{/*
Words that start the pod. Something that has to come before the engine gets the engine's
command as its arguments, and starts it by exec.
*/}}
{{- define "model.command" -}}
{{- $own := ternary .role.group (dict) (eq .part "worker") -}}
{{- $worker := ($own | default dict).worker | default dict -}}
{{- if $worker.command -}}
command:
  {{- include "tokenworks-lib.texts" $worker.command | nindent 2 }}
{{- else -}}
command:
  {{- include "tokenworks-lib.texts" (concat .role.launch .root.Values.engine.command) | nindent 2 }}
{{- with include "model.arguments" . }}
args:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/*
Arguments after the command, one list item each. JSON is YAML, and keeps integers whole:
a number printed otherwise becomes 1e+06 when it comes from a values file.
*/}}
{{- define "model.arguments" -}}
{{- range .root.Values.engine.arguments }}
- {{ . | quote }}
{{- end }}
{{- $style := .root.Values.engine.style }}
{{- range $name, $value := include "model.flags" . | fromJson }}
{{- include "model.flag" (dict "name" $name "value" $value "style" $style) }}
{{- end }}
{{- end -}}

{{/*
One flag, as the engine's style writes it.
*/}}
{{- define "model.flag" -}}
{{- $word := printf "--%s" (ternary (replace "-" "_" .name) .name (eq .style.words "underscores")) -}}
{{- if kindIs "bool" .value }}
{{- include "model.switch" (dict "word" $word "on" .value "style" .style) }}
{{- else if kindIs "slice" .value }}
{{- include "model.list" (dict "word" $word "items" .value "style" .style) }}
{{- else }}
{{- $text := ternary .value (toRawJson .value) (kindIs "string" .value) }}
{{- include "model.pair" (dict "word" $word "text" $text "style" .style) }}
{{- end }}
{{- end -}}

{{/*
A flag with a value: one argument or two.
*/}}
{{- define "model.pair" -}}
{{- if eq .style.separator "equals" }}
- {{ printf "%s=%s" .word .text | quote }}
{{- else }}
- {{ .word | quote }}
- {{ .text | quote }}
{{- end }}
{{- end -}}

{{/*
A flag that is on or off.
*/}}
{{- define "model.switch" -}}
{{- if .on }}
- {{ .word | quote }}
{{- else if eq .style.off "no-prefix" }}
- {{ printf "--no-%s" (trimPrefix "--" .word) | quote }}
{{- else if eq .style.off "value" }}
{{- include "model.pair" (dict "word" .word "text" "false" "style" .style) }}
{{- end }}
{{- end -}}

{{/*
A flag with several values.
*/}}
{{- define "model.list" -}}
{{- if eq .style.lists "items" }}
- {{ .word | quote }}
{{- range .items }}
- {{ . | quote }}
{{- end }}
{{- else if eq .style.lists "repeat" }}
{{- range .items }}
{{- include "model.pair" (dict "word" $.word "text" . "style" $.style) }}
{{- end }}
{{- else }}
{{- $text := join (ternary "," " " (eq .style.lists "comma")) .items }}
{{- include "model.pair" (dict "word" .word "text" $text "style" .style) }}
{{- end }}
{{- end -}}

{{/*
Environment: the pod's address, which values may refer to as $(POD_IP); literal values of
engine and role; those from Secrets.
*/}}
{{- define "model.env" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: status.podIP
{{- range $name, $value := mergeOverwrite (deepCopy .root.Values.engine.env) (deepCopy .role.env) }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- include "model.secretEnv" .root.Values.engine }}
{{- end -}}

{{/*
Environment from Secrets. Call with the engine's values.
*/}}
{{- define "model.secretEnv" -}}
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
{{- $limits = mergeOverwrite $limits .devices -}}
requests:
  {{- mergeOverwrite (dict "cpu" .cpu) $limits | toYaml | nindent 2 }}
limits:
  {{- toYaml $limits | nindent 2 }}
{{- end -}}
