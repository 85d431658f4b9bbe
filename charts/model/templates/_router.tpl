{{/*
Name of the objects of the engine's own router.
*/}}
{{- define "model.routerName" -}}
{{ .Release.Name }}-router
{{- end -}}

{{/*
Pod of the engine's own router. It finds prefill and decode by watching pods.
*/}}
{{- define "model.routerPod" -}}
serviceAccountName: {{ include "model.routerName" . | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "model.gracePeriod" . | int64 }}
securityContext:
  {{- include "tokenworks-lib.podSecurity" .Values.router.user | nindent 2 }}
containers:
  - {{- include "model.routerContainer" . | nindent 4 }}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
{{- end -}}

{{/*
The engine's own router itself.
*/}}
{{- define "model.routerContainer" -}}
name: router
image: {{ include "tokenworks-lib.image" .Values.router.image | quote }}
imagePullPolicy: IfNotPresent
{{- with .Values.router.command }}
command:
  {{- include "tokenworks-lib.texts" . | nindent 2 }}
{{- end }}
args:
  {{- include "tokenworks-lib.texts" .Values.router.arguments | nindent 2 }}
env:
  - {name: HOME, value: /tmp}
ports:
  - {name: http, containerPort: {{ int64 .Values.router.port }}, protocol: TCP}
  - {name: metrics, containerPort: {{ int64 .Values.router.metricsPort }}, protocol: TCP}
{{ include "model.routerProbes" .Values.router }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ int64 .Values.timing.preStopSeconds }}
resources:
  {{- include "tokenworks-lib.smallResources" .Values.router.resources | nindent 2 }}
securityContext:
  {{- include "tokenworks-lib.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{/*
It lives when its process answers, and is ready when both roles are there.
*/}}
{{- define "model.routerProbes" -}}
startupProbe:
  {{- include "tokenworks-lib.httpProbe" (dict "path" .health "periodSeconds" 1 "timeoutSeconds" 5 "failureThreshold" 120) | nindent 2 }}
readinessProbe:
  {{- include "tokenworks-lib.httpProbe" (dict "path" .ready "periodSeconds" 5 "timeoutSeconds" 5 "failureThreshold" 3) | nindent 2 }}
livenessProbe:
  {{- include "tokenworks-lib.httpProbe" (dict "path" .health "periodSeconds" 15 "timeoutSeconds" 10 "failureThreshold" 5) | nindent 2 }}
{{- end -}}
