{{/*
What runs before the engine of a role: weights made whole, waiting for another role, a look at
the network, loading adapters, and the router's sidecar, which goes on beside it.
*/}}
{{- define "model.initContainers" -}}
{{- if .root.Values.weights.fetch }}
- {{- include "model.weightsContainer" (dict "root" .root "does" (ternary "wait" "fetch" (eq .root.Values.weights.kind "pvc"))) | nindent 2 }}
{{- end }}
{{- if and .role.after (eq .root.Values.expressedAs "native") }}
- {{- include "model.waiter" . | nindent 2 }}
{{- end }}
{{- if .role.rdma }}
- {{- include "model.rdmaCheck" . | nindent 2 }}
{{- end }}
{{- if .root.Values.lora }}
- {{- include "model.adapters" . | nindent 2 }}
{{- end }}
{{- if and .role.sidecar (eq .part "leader") }}
- {{- include "model.sidecar" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
A short-lived helper in the engine's image, which has Python.
Call with (dict "pod" . "name" "…" "script" "…" "arguments" (list …) "devices" (dict)).
*/}}
{{- define "model.helper" -}}
name: {{ .name | quote }}
image: {{ include "tokenworks-lib.image" .pod.root.Values.engine.image | quote }}
imagePullPolicy: IfNotPresent
command:
  {{- include "tokenworks-lib.texts" (concat (list "python3" "-c" .script) .arguments) | nindent 2 }}
resources:
  {{- $small := dict "memory" "128Mi" "ephemeral-storage" "64Mi" }}
  requests:
    {{- mergeOverwrite (dict "cpu" "100m") $small .devices | toYaml | nindent 4 }}
  limits:
    {{- mergeOverwrite (dict) $small .devices | toYaml | nindent 4 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
{{- end -}}

{{/*
Roles start in order: this one's engine waits until the other one answers.
*/}}
{{- define "model.waiter" -}}
{{- $service := printf "%s-%s-ready" .root.Release.Name .role.after -}}
{{- $url := printf "http://%s:%d%s" $service (int .root.Values.engine.port) .root.Values.probes.readiness.path -}}
{{- $script := .root.Files.Get "files/wait.py" -}}
{{- include "model.helper" (dict "pod" . "name" (printf "wait-for-%s" .role.after) "script" $script "arguments" (list $url) "devices" (dict)) -}}
{{- end -}}

{{/*
RDMA that does not work is slow, not broken: engines fall back to TCP and nobody is told. So
the pod says what is missing and does not start.
*/}}
{{- define "model.rdmaCheck" -}}
{{- $script := .root.Files.Get "files/rdma.py" -}}
{{- include "model.helper" (dict "pod" . "name" "rdma-check" "script" $script "arguments" (list) "devices" .role.resources.devices) -}}
{{- end -}}

{{/*
llm-d's routing sidecar. It answers /health itself, whatever the engine does: the engine's probes
ask the engine. It ends at SIGTERM, so it is a native sidecar, which is told after the engine ended.
*/}}
{{- define "model.sidecar" -}}
name: router
image: {{ include "tokenworks-lib.image" .role.sidecar.image | quote }}
imagePullPolicy: IfNotPresent
restartPolicy: Always
args:
  {{- include "tokenworks-lib.texts" .role.sidecar.arguments | nindent 2 }}
env:
  {{- include "model.sidecarEnv" .role.sidecar | nindent 2 }}
ports:
  - {name: http, containerPort: {{ int64 .root.Values.engine.port }}, protocol: TCP}
{{ include "model.sidecarProbes" . }}
resources:
  {{- include "tokenworks-lib.smallResources" .role.sidecar.resources | nindent 2 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/*
Probes of the sidecar: whether it answers at all.
*/}}
{{- define "model.sidecarProbes" -}}
{{- $ask := dict "path" "/health" "timeoutSeconds" 5 -}}
startupProbe:
  {{- include "tokenworks-lib.httpProbe" (merge (dict "periodSeconds" 1 "failureThreshold" 60) $ask) | nindent 2 }}
readinessProbe:
  {{- include "tokenworks-lib.httpProbe" (merge (dict "periodSeconds" 5 "failureThreshold" 3) $ask) | nindent 2 }}
livenessProbe:
  {{- include "tokenworks-lib.httpProbe" (merge (dict "periodSeconds" 15 "failureThreshold" 6) $ask) | nindent 2 }}
{{- end -}}

{{/*
Environment of the sidecar: the pod's address, and what it is told.
*/}}
{{- define "model.sidecarEnv" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: status.podIP
{{- range $name, $value := .env }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}
