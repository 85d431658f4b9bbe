{{/*
Failures the startup probe forgives: as many as fit into the start. The first pod of a group is
healthy when all have joined, and others may still pull the image when it starts.
Call with (dict "pod" . "period" seconds).
*/}}
{{- define "model.startupFailures" -}}
{{- $time := .pod.root.Values.timing -}}
{{- $others := ternary 0 (int64 $time.imagePullSeconds) (empty .pod.role.group) -}}
{{- div (add (int64 $time.startSeconds) $others (sub .period 1)) .period -}}
{{- end -}}

{{/*
Seconds a pod may take until it is ready: pull, weights, start, buffer; twice that where its role begins
only after another one is ready.
*/}}
{{- define "model.progressDeadline" -}}
{{- $time := .root.Values.timing -}}
{{- $once := add (int64 $time.imagePullSeconds) (int64 $time.fetchSeconds) (int64 $time.startSeconds) (int64 $time.bufferSeconds) -}}
{{- mul $once (ternary 1 2 (empty .role.after)) -}}
{{- end -}}

{{/*
Seconds a pod may take to end: leave the picker's list, drain, buffer.
*/}}
{{- define "model.gracePeriod" -}}
{{- with .Values.timing -}}
{{- add (int64 .preStopSeconds) (int64 .drainSeconds) (int64 .bufferSeconds) -}}
{{- end -}}
{{- end -}}
