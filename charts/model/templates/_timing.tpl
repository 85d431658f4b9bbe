{{/*
Failures the startup probe forgives: as many as fit into the start.
*/}}
{{- define "model.startupFailures" -}}
{{- $period := int64 .Values.probes.startup.periodSeconds -}}
{{- div (add (int64 .Values.timing.startSeconds) (sub $period 1)) $period -}}
{{- end -}}

{{/*
Seconds a pod may take until it is ready: pull, weights, start, buffer.
*/}}
{{- define "model.progressDeadline" -}}
{{- with .Values.timing -}}
{{- add (int64 .imagePullSeconds) (int64 .fetchSeconds) (int64 .startSeconds) (int64 .bufferSeconds) -}}
{{- end -}}
{{- end -}}

{{/*
Seconds a pod may take to end: leave the picker's list, drain, buffer.
*/}}
{{- define "model.gracePeriod" -}}
{{- with .Values.timing -}}
{{- add (int64 .preStopSeconds) (int64 .drainSeconds) (int64 .bufferSeconds) -}}
{{- end -}}
{{- end -}}
