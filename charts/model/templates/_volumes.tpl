{{/*
Volumes of an engine pod. All that it may write to has a limit.
*/}}
{{- define "model.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratch.tmp | quote }}
- name: cache
  emptyDir:
    sizeLimit: {{ .Values.scratch.cache | quote }}
{{- with .Values.resources.sharedMemory }}
- name: shared-memory
  emptyDir:
    medium: Memory
    sizeLimit: {{ . | quote }}
{{- end }}
{{- include "model.weightsVolume" .Values.weights }}
{{- end -}}

{{/*
The weights: the node's disk, or a claim that is filled already.
*/}}
{{- define "model.weightsVolume" -}}
{{- if eq .kind "ephemeral" }}
- name: weights
  emptyDir:
    sizeLimit: {{ required "weights.size is missing: kind ephemeral needs a limit" .size | quote }}
{{- else if eq .kind "pvc" }}
- name: weights
  persistentVolumeClaim:
    claimName: {{ required "weights.claim is missing: kind pvc needs it" .claim | quote }}
    readOnly: true
{{- end }}
{{- end -}}

{{/*
Where they are mounted.
*/}}
{{- define "model.mounts" -}}
- name: tmp
  mountPath: /tmp
- name: cache
  mountPath: /cache
{{- if .Values.resources.sharedMemory }}
- name: shared-memory
  mountPath: /dev/shm
{{- end }}
{{- if ne .Values.weights.kind "none" }}
- name: weights
  mountPath: {{ .Values.weights.path | quote }}
  readOnly: {{ eq .Values.weights.kind "pvc" }}
{{- end }}
{{- end -}}
