{{/*
Every pod of the release.
*/}}
{{- define "model.release" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/*
Peers that ask engines for answers or gauges: the gateway or the engine's own router, the
picker, monitoring.
*/}}
{{- define "model.askers" -}}
{{- if .Values.router }}
- podSelector:
    matchLabels:
      {{- include "tokenworks-lib.selector" (dict "root" . "component" "router") | nindent 6 }}
{{- else }}
- {{- include "tokenworks-lib.gatewayPeer" .Values.route.gateway | nindent 2 }}
{{- end }}
{{- if .Values.picker }}
- podSelector:
    matchLabels:
      {{- include "tokenworks-lib.selector" (dict "root" . "component" "picker") | nindent 6 }}
{{- end }}
- {{- include "tokenworks-lib.namespacePeer" .Values.network.monitoringNamespace | nindent 2 }}
{{- end -}}

{{/*
Ports of a role that answer requests.
*/}}
{{- define "model.requestPorts" -}}
{{- $first := int64 .root.Values.engine.port -}}
{{- $last := add $first (sub (int64 .role.endpoints) 1) -}}
{{- if gt $last $first -}}
- {protocol: TCP, port: {{ $first }}, endPort: {{ $last }}}
{{- else -}}
- {protocol: TCP, port: {{ $first }}}
{{- end -}}
{{- end -}}

{{/*
Rules that let the pods of a model talk among themselves.
*/}}
{{- define "model.fromPeers" -}}
{{- if ne .role.openTo "none" }}
# Ranks choose their own ports.
- from:
    - podSelector:
        matchLabels:
          {{- ternary (include "model.rolePods" .) (include "model.release" .root) (eq .role.openTo "role") | nindent 10 }}
{{- end }}
{{- if and (gt (len .root.Values.roles) 1) (ne .role.openTo "release") }}
# The other role asks for prompts to be read, and fetches what was read.
- from:
    - podSelector:
        matchLabels:
          {{- include "model.release" .root | nindent 10 }}
  ports:
    {{- include "model.requestPorts" . | nindent 4 }}
    {{- range .role.ports }}
    - {protocol: TCP, port: {{ int64 .port }}{{ if gt (int .count) 1 }}, endPort: {{ add .port (sub (int64 .count) 1) }}{{ end }}}
    {{- end }}
{{- end }}
{{- end -}}
