{{/*
Quota of one node pool, in the order of the covered resources. What is not given is 0.
Without `borrow` the tenant keeps to its own.
*/}}
{{- define "queues.quota" -}}
{{- range $name, $_ := .quota.nominal -}}
{{- if not (has $name $.resources) -}}
{{- fail (printf "nominal quota of %s: it is not among resources, so it would not count; add it there" $name) -}}
{{- end -}}
{{- end -}}
{{- range .resources }}
- name: {{ . | quote }}
  nominalQuota: {{ index $.quota.nominal . | default "0" | quote }}
  {{- if not $.quota.borrow }}
  borrowingLimit: "0"
  {{- end }}
{{- end }}
{{- end -}}
