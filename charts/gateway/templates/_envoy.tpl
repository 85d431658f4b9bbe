{{/*
Match: the HTTP connection manager of the gateway's listeners.
*/}}
{{- define "gateway.connectionManager" -}}
context: GATEWAY
listener:
  filterChain:
    filter:
      name: envoy.filters.network.http_connection_manager
{{- end -}}

{{/*
What an EnvoyFilter applies to: our Gateway.
*/}}
{{- define "gateway.targetRefs" -}}
- group: gateway.networking.k8s.io
  kind: Gateway
  name: {{ .Values.name | quote }}
{{- end -}}

{{/*
Name of the body-based router's objects.
*/}}
{{- define "gateway.routerName" -}}
{{ .Values.name }}-body-router
{{- end -}}

{{/*
DNS name of the body-based router.
*/}}
{{- define "gateway.routerHost" -}}
{{ include "gateway.routerName" . }}.{{ .Release.Namespace }}.svc.{{ .Values.network.clusterDomain }}
{{- end -}}

{{/*
The answer of GET /v1/models, as OpenAI's API has it.
*/}}
{{- define "gateway.models" -}}
{{- $data := list -}}
{{- range $name, $tenant := .Values.models -}}
{{- $data = append $data (dict "id" $name "object" "model" "created" 0 "owned_by" $tenant) -}}
{{- end -}}
{{- dict "object" "list" "data" $data | toRawJson -}}
{{- end -}}

{{/*
Rule: the request's Content-Length is within the limit. The end of a range is exclusive.
*/}}
{{- define "gateway.lengthAllowed" -}}
header:
  name: content-length
  range_match: {start: 0, end: {{ add (int64 .Values.limits.maxRequestBytes) 1 }}}
{{- end -}}

{{/*
One rule for answers that the gateway makes itself: which (`filter`), and what they say.
Call with filter, status (optional), message, type, param (optional), code.
*/}}
{{- define "gateway.answer" -}}
- filter:
    {{- .filter | nindent 4 }}
  {{- with .status }}
  status_code: {{ int64 . }}
  {{- end }}
  body_format_override:
    json_format:
      error:
        message: {{ .message | quote }}
        type: {{ .type | quote }}
        param: {{ .param | default "" | quote }}
        code: {{ .code | quote }}
{{- end -}}

{{/*
Filter: the answer's status. Call with op (EQ or GE) and status.
*/}}
{{- define "gateway.status" -}}
status_code_filter:
  comparison:
    op: {{ .op | quote }}
    value: {default_value: {{ .status }}, runtime_key: tokenworks.status}
{{- end -}}

{{/*
Filter: the request was refused for its length, and had one.
*/}}
{{- define "gateway.refusedLength" -}}
and_filter:
  filters:
    - {{- include "gateway.status" (dict "op" "EQ" "status" 403) | nindent 6 }}
    - header_filter:
        header: {name: content-length, present_match: true}
{{- end -}}
