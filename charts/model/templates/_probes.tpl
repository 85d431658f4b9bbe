{{/*
Probes of an engine container. A worker that answers nothing itself lives as long as the first
pod of its group answers: it is restarted, and the group with it, instead of waiting unseen.
*/}}
{{- define "model.probes" -}}
{{- $probes := .root.Values.probes -}}
{{- $period := include "model.probePeriod" (dict "pod" . "probe" $probes.startup) | int64 -}}
{{- $failures := include "model.startupFailures" (dict "pod" . "period" $period) -}}
startupProbe:
  {{- include "model.probe" (dict "pod" . "probe" (merge (dict "failureThreshold" $failures) $probes.startup)) | nindent 2 }}
readinessProbe:
  {{- include "model.probe" (dict "pod" . "probe" $probes.readiness) | nindent 2 }}
livenessProbe:
  {{- include "model.probe" (dict "pod" . "probe" $probes.liveness) | nindent 2 }}
{{- end -}}

{{/*
Seconds between two looks. Starting a program is dear, and nobody waits for a worker's answer.
*/}}
{{- define "model.probePeriod" -}}
{{- ternary (int64 .probe.periodSeconds) (max 10 (int64 .probe.periodSeconds)) (not (empty (include "model.answers" .pod))) -}}
{{- end -}}

{{/*
One probe of an engine container: over HTTP, or by asking the first pod of its group. A program
needs some seconds more, to start on a busy node.
*/}}
{{- define "model.probe" -}}
{{- if not (include "model.answers" .pod) }}
exec:
  command:
    {{- include "model.askLeader" . | nindent 4 }}
periodSeconds: {{ include "model.probePeriod" . | int64 }}
timeoutSeconds: {{ add 5 .probe.timeoutSeconds | int64 }}
failureThreshold: {{ int64 .probe.failureThreshold }}
successThreshold: 1
{{- else }}
{{- $port := ternary "health" (include "model.ownPort" .pod) (not (empty .pod.role.healthPort)) }}
{{- include "tokenworks-lib.httpProbe" (merge (dict "port" $port) .probe) }}
{{- end }}
{{- end -}}

{{/*
Ask the first pod of the group whether it is healthy; the engine's image has Python.
*/}}
{{- define "model.askLeader" -}}
{{- $script := .pod.root.Files.Get "files/ask.py" -}}
{{- $leader := list "$(LWS_LEADER_ADDRESS)" (include "model.enginePort" .pod) .probe.path (.probe.timeoutSeconds | int64 | toString) -}}
{{- include "tokenworks-lib.texts" (concat (list "python3" "-I" "-S" "-c" $script) $leader) -}}
{{- end -}}
