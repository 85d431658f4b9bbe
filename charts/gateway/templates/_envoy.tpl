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
  name: {{ .Values.name }}
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
