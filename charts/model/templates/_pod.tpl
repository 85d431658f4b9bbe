{{/*
What helpers of a pod are called with: the root, a role by name, and which pod of a replica:
leader (the only or first one) or worker. Call with (dict "root" $ "name" "engine").
*/}}
{{- define "model.leader" -}}
{{- $_ := set . "role" (get .root.Values.roles .name) -}}
{{- $_ := set . "part" "leader" -}}
{{- $_ := set . "component" .name -}}
{{- end -}}

{{/*
The same for the pods of a group that are not the first.
*/}}
{{- define "model.worker" -}}
{{- include "model.leader" . -}}
{{- $_ := set . "part" "worker" -}}
{{- $_ := set . "component" (printf "%s-worker" .name) -}}
{{- end -}}

{{/*
Name of a role's objects. Groups make a Service of their own name, so it is not the release's.
*/}}
{{- define "model.roleName" -}}
{{- if and (eq .name "engine") (not .role.group) -}}
{{ .root.Release.Name }}
{{- else -}}
{{ .root.Release.Name }}-{{ .name }}
{{- end -}}
{{- end -}}

{{/*
Labels of what Kueue counts: the object that makes a role's pods, or each pod where Kueue does not
know that object.
*/}}
{{- define "model.queueLabels" -}}
{{- with .role.queue }}
kueue.x-k8s.io/queue-name: {{ .name | quote }}
kueue.x-k8s.io/priority-class: {{ .priorityClass | quote }}
{{- end }}
{{- end -}}

{{/*
Whether a pod answers requests from outside its group.
*/}}
{{- define "model.serves" -}}
{{- if or (eq .part "leader") .role.group.allServe }}true{{ end -}}
{{- end -}}

{{/*
Pods that answer requests, of every role: what pool, picker and Service look for.
*/}}
{{- define "model.endpoints" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
tokenworks.dev/endpoint: "true"
{{- end -}}

{{/*
Pods of one role, leaders and workers.
*/}}
{{- define "model.rolePods" -}}
app.kubernetes.io/name: {{ .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
tokenworks.dev/role: {{ .name | quote }}
{{- end -}}

{{/*
Pods that the Service of the release leads to: the engine's own router, those that write
answers, or all that answer requests.
*/}}
{{- define "model.front" -}}
{{- if .Values.router -}}
{{- include "tokenworks-lib.selector" (dict "root" . "component" "router") -}}
{{- else if .Values.roles.decode -}}
{{- include "tokenworks-lib.selector" (dict "root" . "component" "decode") -}}
{{- if .Values.roles.decode.group }}
tokenworks.dev/endpoint: "true"
{{- end -}}
{{- else -}}
{{- include "model.endpoints" . -}}
{{- end -}}
{{- end -}}

{{/*
Labels of a pod.
*/}}
{{- define "model.podLabels" -}}
{{- $more := mergeOverwrite (deepCopy .root.Values.podLabels) (deepCopy .role.labels) -}}
{{- $_ := set $more "tokenworks.dev/role" .name -}}
{{- if include "model.serves" . }}{{ $_ := set $more "tokenworks.dev/endpoint" "true" }}{{ end -}}
{{- if eq .root.Values.expressedAs "RoleBasedGroup" }}
{{- $more = merge $more (include "model.queueLabels" . | fromYaml) -}}
{{- end -}}
{{- include "tokenworks-lib.labels" (dict "root" .root "component" .component "more" $more) -}}
{{- end -}}

{{/*
The template of every engine pod, whichever role, leader or worker.
*/}}
{{- define "model.podTemplate" -}}
metadata:
  labels:
    {{- include "model.podLabels" . | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: engine
    {{- with .root.Values.engine.files }}
    # Engines read their files once.
    checksum/files: {{ toJson . | sha256sum | quote }}
    {{- end }}
    {{- with .role.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "model.podSpec" . | nindent 2 }}
{{- end -}}

{{/*
What is in every engine pod.
*/}}
{{- define "model.podSpec" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "model.gracePeriod" .root | int64 }}
securityContext:
  {{- include "tokenworks-lib.podSecurity" .root.Values.engine.user | nindent 2 }}
{{- with .role.scheduling.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .role.scheduling.tolerations }}
tolerations:
  {{- range . }}
  {{- include "tokenworks-lib.toleration" . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with include "model.initContainers" . }}
initContainers:
  {{- . | nindent 2 }}
{{- end }}
containers:
  - {{- include "model.container" . | nindent 4 }}
volumes:
  {{- include "model.volumes" . | nindent 2 }}
{{- end -}}

{{/*
Seconds between leaving the picker's list and SIGTERM. A worker that answers nothing itself goes
at SIGTERM, whatever still runs: it is told only after the first pod has had its time.
*/}}
{{- define "model.preStop" -}}
{{- $timing := .root.Values.timing -}}
{{- if include "model.answers" . -}}
{{- int64 $timing.preStopSeconds -}}
{{- else -}}
{{- add (int64 $timing.preStopSeconds) (int64 $timing.drainSeconds) -}}
{{- end -}}
{{- end -}}

{{/*
The engine itself.
*/}}
{{- define "model.container" -}}
name: engine
image: {{ include "tokenworks-lib.image" .root.Values.engine.image | quote }}
imagePullPolicy: IfNotPresent
{{ include "model.command" . }}
env:
  {{- include "model.env" . | nindent 2 }}
{{- with include "model.ports" . }}
ports:
  {{- . | nindent 2 }}
{{- end }}
{{ include "model.probes" . }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ include "model.preStop" . | int64 }}
resources:
  {{- include "model.resources" .role.resources | nindent 2 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- include "model.mounts" . | nindent 2 }}
{{- end -}}

{{/*
Whether a pod answers HTTP at all, if only to probes.
*/}}
{{- define "model.answers" -}}
{{- if eq .part "leader" }}true{{ else if or .role.group.allServe (eq .role.group.worker.probe "http") }}true{{ end -}}
{{- end -}}

{{/*
Name of the port that a sidecar, or else the engine itself, is asked on.
*/}}
{{- define "model.ownPort" -}}
{{- ternary "engine" "http" (not (empty .role.sidecar)) -}}
{{- end -}}

{{/*
Ports of the engine container: those that answer requests, the probes', those of peers.
*/}}
{{- define "model.ports" -}}
{{- $first := include "model.enginePort" . | int -}}
{{- $own := include "model.ownPort" . -}}
{{- if include "model.answers" . }}
{{- range $n := until (int .role.endpoints) }}
- {name: {{ ternary $own (printf "%s-%d" $own $n) (eq $n 0) }}, containerPort: {{ add $first $n }}, protocol: TCP}
{{- end }}
{{- end }}
{{- with .role.healthPort }}
- {name: health, containerPort: {{ int64 . }}, protocol: TCP}
{{- end }}
{{- range $name, $port := .role.ports }}
{{- range $n := until (int $port.count) }}
- {name: {{ ternary $name (printf "%s-%d" $name $n) (eq $n 0) | quote }}, containerPort: {{ add $port.port $n | int64 }}, protocol: TCP}
{{- end }}
{{- end }}
{{- end -}}
