{{/*
How a role of a RoleBasedGroup makes its pods. In a group every pod has the same template; the
first one alone is found by those who ask.
*/}}
{{- define "model.rolePattern" -}}
{{- with .role.group }}
{{- $worker := dict "root" $.root "name" $.name }}
{{- include "model.worker" $worker }}
leaderWorkerPattern:
  size: {{ int64 .size }}
  restartPolicy: RecreateRoleInstanceOnPodRestart
  sharedServiceSelection: LeaderOnly
  template:
    {{- include "model.podTemplate" $worker | nindent 4 }}
  leaderTemplatePatch:
    metadata:
      labels:
        {{- include "model.podLabels" $ | nindent 8 }}
{{- else }}
standalonePattern:
  template:
    {{- include "model.podTemplate" . | nindent 4 }}
{{- end }}
{{- end -}}
