{{- define "fairway.revision" -}}{{ .Values.revision | default "default" }}{{- end }}

{{/* Name of the control plane's objects. */}}
{{- define "fairway.name" -}}istiod{{ with .Values.revision }}-{{ . }}{{ end }}{{- end }}

{{/* Name of what belongs to no namespace. */}}
{{- define "fairway.wide" -}}{{ include "fairway.name" . }}-{{ .Release.Namespace }}{{- end }}

{{/* What webhook configurations and ConfigMaps are called beside their own name, as Istio calls them. */}}
{{- define "fairway.suffix" -}}{{ with .Values.revision }}-{{ . }}{{ end }}{{- end }}
{{- define "fairway.hooked" -}}{{ include "fairway.suffix" . }}{{ if ne .Release.Namespace "istio-system" }}-{{ .Release.Namespace }}{{ end }}{{- end }}

{{- define "fairway.labels" -}}
app: istiod
istio.io/rev: {{ include "fairway.revision" . }}
app.kubernetes.io/name: istiod
app.kubernetes.io/part-of: fairway
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairway.selector" -}}
app: istiod
{{ if .Values.revision }}istio.io/rev: {{ .Values.revision }}{{ else }}istio: pilot{{ end }}
{{- end }}

{{/* A whole reference, or a name that hub, tag and variant complete. */}}
{{- define "fairway.image" -}}
{{- $g := .Values.global -}}
{{- if contains "/" .Values.pilot.image -}}{{ .Values.pilot.image }}
{{- else -}}{{ trimSuffix "/" ($g.hub | default "") }}/{{ .Values.pilot.image }}:{{ $g.tag | default .Chart.AppVersion }}{{ with $g.variant }}-{{ . }}{{ end }}{{- end }}
{{- end }}

{{/* Where the API server finds a webhook. */}}
{{- define "fairway.client" -}}
{{- if .url -}}
url: {{ .url }}
{{- else -}}
service: {name: {{ include "fairway.name" .root }}, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}, port: 443}
{{- end }}
{{- with .root.Values.istiodRemote.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- end }}
