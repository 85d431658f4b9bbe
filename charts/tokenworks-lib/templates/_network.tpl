{{/*
Egress to the cluster's DNS. Call with its namespace.
*/}}
{{- define "tokenworks-lib.toDns" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ . | quote }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{/*
Peer: every pod of a namespace. Call with its name.
*/}}
{{- define "tokenworks-lib.namespacePeer" -}}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ . | quote }}
{{- end -}}

{{/*
Peer: the gateway's pods, which carry the label that the Gateway API gives them.
Call with name and namespace of the Gateway.
*/}}
{{- define "tokenworks-lib.gatewayPeer" -}}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ .namespace | quote }}
podSelector:
  matchLabels:
    gateway.networking.k8s.io/gateway-name: {{ .name | quote }}
{{- end -}}
