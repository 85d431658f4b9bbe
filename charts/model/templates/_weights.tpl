{{/*
Name of the objects that bring the weights.
*/}}
{{- define "model.weightsName" -}}
{{ .Release.Name }}-weights
{{- end -}}

{{/*
Name of the Job that fills the claim. Jobs never change, so it is named by what it runs: another
revision is another Job, and what is there already is found in seconds.
*/}}
{{- define "model.weightsJobName" -}}
{{- printf "%s-%s" (include "model.weightsName" .) (include "model.weightsPod" . | sha256sum | trunc 10) -}}
{{- end -}}

{{/*
Pod of that Job. It is restarted until the weights are there: a mended Secret is enough.
*/}}
{{- define "model.weightsPod" -}}
metadata:
  labels:
    {{- $more := merge (dict "tokenworks.dev/role" "weights") .Values.podLabels }}
    {{- include "tokenworks-lib.labels" (dict "root" . "component" "weights" "more" $more) | nindent 4 }}
  annotations:
    checksum/program: {{ .Files.Get "files/fetch.py" | sha256sum | quote }}
spec:
  restartPolicy: OnFailure
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    {{- include "tokenworks-lib.podSecurity" .Values.engine.user | nindent 4 }}
  containers:
    - {{- include "model.weightsContainer" (dict "root" . "does" "fetch") | nindent 6 }}
  volumes:
    - name: weights
      persistentVolumeClaim:
        claimName: {{ .Values.weights.claim | quote }}
    {{- include "model.weightsProgram" . | nindent 4 }}
{{- end -}}

{{/*
The program that downloads, or waits for whoever downloads.
*/}}
{{- define "model.weightsProgram" -}}
- name: fetch
  configMap:
    name: {{ include "model.weightsName" . | quote }}
    defaultMode: 292
{{- end -}}

{{/*
It as a container. Call with (dict "root" $ "does" "fetch" or "wait").
*/}}
{{- define "model.weightsContainer" -}}
{{- $weights := .root.Values.weights -}}
name: weights
image: {{ include "tokenworks-lib.image" .root.Values.engine.image | quote }}
imagePullPolicy: IfNotPresent
command:
  {{- include "tokenworks-lib.texts" (list "python3" "/opt/fetch/fetch.py" .does $weights.fetch.repository $weights.fetch.revision $weights.path) | nindent 2 }}
{{- if eq .does "fetch" }}
{{- with include "model.weightsEnv" $weights.fetch }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
resources:
  {{- include "tokenworks-lib.smallResources" (ternary $weights.fetch.resources (dict "cpu" "100m" "memory" "128Mi") (eq .does "fetch")) | nindent 2 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: fetch, mountPath: /opt/fetch, readOnly: true}
  - {name: weights, mountPath: {{ $weights.path | quote }}, readOnly: {{ eq .does "wait" }}}
{{- end -}}

{{/*
The hub's token, for whoever downloads.
*/}}
{{- define "model.weightsEnv" -}}
{{- with .token }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . | quote }}
      key: token
{{- end }}
{{- end -}}
