{{/*
repository:tag@digest, as far as each is known. A digest that is `unresolved` is left out.
*/}}
{{- define "tokenworks-lib.image" -}}
{{- $digest := ternary "" .digest (eq (.digest | default "unresolved") "unresolved") -}}
{{- if not (or .tag $digest) -}}
{{- fail (printf "image %s has neither tag nor digest: give one, the digest if it is known" .repository) -}}
{{- end -}}
{{- .repository -}}{{- with .tag }}:{{ . }}{{ end -}}{{- with $digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
Security of a pod: never root. Call with the uid.
*/}}
{{- define "tokenworks-lib.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/*
Security of a container: what is written to is a volume, and nothing is gained by exec.
*/}}
{{- define "tokenworks-lib.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/*
An HTTP probe. Call with path, periodSeconds, timeoutSeconds, failureThreshold; "port" is a
port's name, http by default.
*/}}
{{- define "tokenworks-lib.httpProbe" -}}
httpGet:
  path: {{ .path | quote }}
  port: {{ .port | default "http" | quote }}
  scheme: HTTP
periodSeconds: {{ int64 .periodSeconds }}
timeoutSeconds: {{ int64 .timeoutSeconds }}
failureThreshold: {{ int64 .failureThreshold }}
successThreshold: 1
{{- end -}}

{{/*
A gRPC health probe. Call with port, periodSeconds, failureThreshold.
*/}}
{{- define "tokenworks-lib.grpcProbe" -}}
grpc:
  port: {{ int64 .port }}
  service: ""
periodSeconds: {{ int64 .periodSeconds }}
timeoutSeconds: 5
failureThreshold: {{ int64 .failureThreshold }}
successThreshold: 1
{{- end -}}

{{/*
Resources of a helper pod: the memory limit equals the request, CPU has no limit.
*/}}
{{- define "tokenworks-lib.smallResources" -}}
requests:
  cpu: {{ .cpu | quote }}
  memory: {{ .memory | quote }}
  ephemeral-storage: 64Mi
limits:
  memory: {{ .memory | quote }}
  ephemeral-storage: 64Mi
{{- end -}}

{{/*
One toleration. Call with key, value (or null), effect, operator (default: as the value asks).
*/}}
{{- define "tokenworks-lib.toleration" -}}
- key: {{ .key | quote }}
  operator: {{ .operator | default (ternary "Equal" "Exists" (kindIs "string" .value)) | quote }}
  {{- if kindIs "string" .value }}
  value: {{ .value | quote }}
  {{- end }}
  effect: {{ .effect | quote }}
{{- end -}}

{{/*
Texts as items of a list. Call with the list.
*/}}
{{- define "tokenworks-lib.texts" -}}
{{- range . }}
- {{ . | quote }}
{{- end }}
{{- end -}}
