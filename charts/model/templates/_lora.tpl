{{/*
The approved list, as the program that loads adapters reads it.
*/}}
{{- define "model.adapterList" -}}
{{- $adapters := dict -}}
{{- range $name, $adapter := .adapters -}}
{{- $_ := set $adapters $name (omit (merge (dict "bytes" (int64 $adapter.bytes) "rank" (int64 $adapter.rank)) $adapter) "asked") -}}
{{- end -}}
{{- dict "adapters" $adapters "base" .base "replace" .replace | toRawJson -}}
{{- end -}}

{{/*
Name of the ConfigMap with the list. It is never part of a pod's template: a change of the list
restarts nothing.
*/}}
{{- define "model.adapterListName" -}}
{{ .Release.Name }}-adapters
{{- end -}}

{{/*
Loads adapters in the engine's image, which has Python: before the engine, or beside it.
*/}}
{{- define "model.adapters" -}}
{{- $lora := .root.Values.lora -}}
name: adapters
image: {{ include "tokenworks-lib.image" .root.Values.engine.image | quote }}
imagePullPolicy: IfNotPresent
command:
  {{- include "tokenworks-lib.texts" (list "python3" "-c" (.root.Files.Get "files/adapters.py")) | nindent 2 }}
args:
  {{- include "model.adapterArguments" . | nindent 2 }}
{{- with include "model.adapterEnv" .root.Values }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- if eq $lora.load "sidecar" }}
{{ include "model.adapterSidecar" . }}
{{- end }}
resources:
  {{- include "tokenworks-lib.smallResources" $lora.resources | nindent 2 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- include "model.adapterMounts" $lora | nindent 2 }}
{{- end -}}

{{/*
What it is told. Before the engine the list is part of the pod, so that another list makes
other pods.
*/}}
{{- define "model.adapterArguments" -}}
{{- $lora := .root.Values.lora -}}
{{- if eq $lora.load "sidecar" -}}
{{- $engine := printf "http://127.0.0.1:%s" (include "model.enginePort" .) -}}
{{- include "tokenworks-lib.texts" (list "serve" $lora.folder "/list/adapters.json" $engine "8089") -}}
{{- else -}}
{{- include "tokenworks-lib.texts" (list "pull" $lora.folder (include "model.adapterList" $lora)) -}}
{{- end -}}
{{- end -}}

{{/*
Of the engine's environment, where the hub is and how it is reached; and the hub's token, which the
engine has not where its weights came before it.
*/}}
{{- define "model.adapterEnv" -}}
{{- range $name, $value := pick .engine.env "HF_ENDPOINT" "HTTPS_PROXY" "NO_PROXY" "SSL_CERT_FILE" }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- with .lora.token }}
{{- include "model.secretEnv" (dict "secretEnv" (dict "HF_TOKEN" (dict "secret" . "key" "token"))) }}
{{- end }}
{{- end -}}

{{/*
What makes it a sidecar: it starts before the engine and ends after it. A pod is ready when the
list was dealt with once; later changes never take it away from the requests of others.
*/}}
{{- define "model.adapterSidecar" -}}
restartPolicy: Always
ports:
  - {name: adapters, containerPort: 8089, protocol: TCP}
{{- range $probe, $fields := dict "startupProbe" (dict "path" "/live" "periodSeconds" 1 "failureThreshold" 60) "readinessProbe" (dict "path" "/ready" "periodSeconds" 5 "failureThreshold" 3) "livenessProbe" (dict "path" "/live" "periodSeconds" 20 "failureThreshold" 5) }}
{{ $probe }}:
  {{- include "tokenworks-lib.httpProbe" (merge (dict "port" "adapters" "timeoutSeconds" 5) $fields) | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Where it writes, and what it copies from.
*/}}
{{- define "model.adapterMounts" -}}
- name: tmp
  mountPath: /tmp
- name: adapters
  mountPath: {{ .folder | quote }}
{{- if eq .load "sidecar" }}
- name: adapter-list
  mountPath: /list
  readOnly: true
{{- end }}
{{- range $n, $claim := .claims }}
- name: adapter-claim-{{ $n }}
  mountPath: {{ printf "/claims/%s" $claim | quote }}
  readOnly: true
{{- end }}
{{- end -}}

{{/*
Volumes of adapters.
*/}}
{{- define "model.adapterVolumes" -}}
{{- $lora := .Values.lora }}
- name: adapters
  emptyDir:
    sizeLimit: {{ $lora.storage | quote }}
{{- if eq $lora.load "sidecar" }}
- name: adapter-list
  configMap:
    name: {{ include "model.adapterListName" . | quote }}
    defaultMode: 0444
{{- end }}
{{- range $n, $claim := $lora.claims }}
- name: adapter-claim-{{ $n }}
  persistentVolumeClaim:
    claimName: {{ $claim | quote }}
    readOnly: true
{{- end }}
{{- end -}}

{{/*
Every name that requests may give: the model's and its adapters'.
*/}}
{{- define "model.names" -}}
{{- $adapters := dict -}}
{{- with .Values.lora }}{{ $adapters = .adapters }}{{ end -}}
{{- concat (list .Values.route.model) (keys $adapters | sortAlpha) | toRawJson -}}
{{- end -}}

{{/*
Matches of the route: every path, and with it every name where bodies carry one.
*/}}
{{- define "model.matches" -}}
{{- $matches := list -}}
{{- $names := ternary (include "model.names" . | fromJsonArray) (list "") .Values.route.byModel -}}
{{- range $path := .Values.route.paths -}}
{{- range $name := $names -}}
{{- $match := dict "path" (dict "type" "PathPrefix" "value" $path) -}}
{{- if $name }}{{ $_ := set $match "headers" (list (dict "type" "Exact" "name" $.Values.route.header "value" $name)) }}{{ end -}}
{{- $matches = append $matches $match -}}
{{- end -}}
{{- end -}}
{{- $matches | toRawJson -}}
{{- end -}}
