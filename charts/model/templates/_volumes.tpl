{{/*
Volumes of an engine pod. All that it may write to has a limit.
*/}}
{{- define "model.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .root.Values.scratch.tmp | quote }}
- name: cache
  emptyDir:
    sizeLimit: {{ .root.Values.scratch.cache | quote }}
{{- with .role.resources.sharedMemory }}
- name: shared-memory
  emptyDir:
    medium: Memory
    sizeLimit: {{ . | quote }}
{{- end }}
{{- include "model.filledVolumes" .root }}
{{- end -}}

{{/*
Volumes that come with something in them, or are filled before the engine starts.
*/}}
{{- define "model.filledVolumes" -}}
{{- if .Values.engine.files }}
- name: files
  configMap:
    name: {{ include "model.filesName" . | quote }}
    defaultMode: 292
{{- end }}
{{- with .Values.kv }}
{{ include "model.kvVolume" . }}
{{- end }}
{{- include "model.weightsVolume" .Values.weights }}
{{- if .Values.lora }}
{{- include "model.adapterVolumes" . }}
{{- end }}
{{- if .Values.weights.fetch }}
{{ include "model.weightsProgram" . }}
{{- end }}
{{- end -}}

{{/*
The weights: the node's disk, for this pod or for all; a claim; or an OCI image.
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
{{- else if eq .kind "node" }}
- name: weights
  hostPath:
    path: {{ required "weights.folder is missing: kind node needs it" .folder | quote }}
    # Without the disk that should be mounted there the root disk would fill up.
    type: Directory
{{- else if eq .kind "image" }}
- name: weights
  image:
    reference: {{ include "tokenworks-lib.image" (required "weights.image is missing: kind image needs it" .image) | quote }}
    pullPolicy: IfNotPresent
{{- end }}
{{- end -}}

{{/*
Name of the ConfigMap with the engine's files.
*/}}
{{- define "model.filesName" -}}
{{ .Release.Name }}-engine-files
{{- end -}}

{{/*
A disk for KV that leaves memory: a claim that pods share, or one of the pod's own, gone with it.
*/}}
{{- define "model.kvVolume" -}}
- name: kv
{{- if .claim }}
  persistentVolumeClaim:
    claimName: {{ .claim | quote }}
{{- else }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ required "kv.storageClass is missing: without kv.claim each volume needs it" .storageClass | quote }}
        resources:
          requests:
            storage: {{ required "kv.size is missing: without kv.claim each volume needs it" .size | quote }}
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
{{- if .role.resources.sharedMemory }}
- name: shared-memory
  mountPath: /dev/shm
{{- end }}
{{- if .root.Values.engine.files }}
- {name: files, mountPath: /etc/engine, readOnly: true}
{{- end }}
{{- with .root.Values.kv }}
- {name: kv, mountPath: {{ .path | quote }}}
{{- end }}
{{- with .root.Values.weights }}{{ if ne .kind "none" }}
- name: weights
  mountPath: {{ .path | quote }}
  readOnly: {{ eq .kind "ephemeral" | not }}
{{- end }}{{ end }}
{{- with .root.Values.lora }}
- name: adapters
  mountPath: {{ .folder | quote }}
  readOnly: true
{{- end }}
{{- end -}}
