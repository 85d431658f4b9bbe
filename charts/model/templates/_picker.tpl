{{/*
Name of the endpoint picker's objects.
*/}}
{{- define "model.pickerName" -}}
{{ .Release.Name }}-epp
{{- end -}}

{{/*
The picker's scorers, as name of the plugin: weight. Those without weight are left out.
*/}}
{{- define "model.scorers" -}}
{{- $all := dict "queue-scorer" .queue "kv-cache-utilization-scorer" .kvCache "prefix-cache-scorer" .prefix -}}
{{- range $type, $weight := $all -}}
{{- if $weight }}
{{ $type }}: {{ int64 $weight }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The picker's configuration: how to score pods, and which gauges to read from them.
*/}}
{{- define "model.pickerConfig" -}}
{{- $scorers := include "model.scorers" .Values.picker.scorers | fromYaml -}}
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
  {{- range $type, $_ := $scorers }}
  - type: {{ $type | quote }}
  {{- end }}
  - type: max-score-picker
  {{- include "model.pickerMetrics" .Values.engine | nindent 2 }}
schedulingProfiles:
  - name: default
    plugins:
      {{- range $type, $weight := $scorers }}
      - pluginRef: {{ $type | quote }}
        weight: {{ int64 $weight }}
      {{- end }}
      - pluginRef: max-score-picker
{{- end -}}

{{/*
The picker's plugins that scrape an engine.
*/}}
{{- define "model.pickerMetrics" -}}
- type: metrics-data-source
  parameters:
    scheme: http
    path: {{ .metricsPath | quote }}
- type: core-metrics-extractor
  parameters:
    defaultEngine: engine
    engineConfigs:
      - name: engine
        queuedRequestsSpec: {{ .metrics.queued | quote }}
        runningRequestsSpec: {{ .metrics.running | quote }}
        kvUsageSpec: {{ .metrics.kvUsage | quote }}
        loraSpec: {{ .metrics.lora | quote }}
        cacheInfoSpec: {{ .metrics.cacheInfo | quote }}
{{- end -}}
