{{/* What is behind the path of injection: the key that the values name, else the one that the control plane wrote into the configuration. */}}
{{- define "fairway.keyed" -}}
{{- $key := .root.Values.sidecarInjectorWebhook.key -}}
{{- if not $key -}}
{{- $there := lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" .configuration | default dict -}}
{{- range $there.webhooks | default list -}}
{{- $at := printf "%s%s" (dig "clientConfig" "service" "path" "" .) (dig "clientConfig" "url" "" .) -}}
{{- $key = regexFind "/key/[a-z0-9]{20,64}" $at | trimPrefix "/key/" | default $key -}}
{{- end -}}
{{- end -}}
{{- with $key }}/key/{{ . }}{{ end -}}
{{- end }}

{{/* One webhook of injection: what it is called, and which namespaces and pods it is asked for. */}}
{{- define "fairway.injects" -}}
{{- $keyed := include "fairway.keyed" . -}}
{{- $url := "" -}}
{{- with .root.Values.istiodRemote.injectionURL }}{{ $url = printf "%s%s" (trimSuffix "/" .) $keyed }}{{ end -}}
- name: {{ .name }}.sidecar-injector.istio.io
  clientConfig: {{- include "fairway.client" (dict "root" .root "url" $url "path" (printf "/inject%s" $keyed)) | nindent 4 }}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  failurePolicy: {{ .root.Values.sidecarInjectorWebhook.failurePolicy }}
  reinvocationPolicy: {{ .root.Values.sidecarInjectorWebhook.reinvocationPolicy }}
  timeoutSeconds: {{ .root.Values.sidecarInjectorWebhook.timeoutSeconds }}
  namespaceSelector:
    matchExpressions: {{- .namespaces | nindent 4 }}
  objectSelector:
    matchExpressions: {{- .pods | nindent 4 }}
{{- end }}

{{/* All webhooks of one name of the control plane, its revision's or a tag's. */}}
{{- define "fairway.injection" -}}
{{- $of := dict "root" .root "configuration" .configuration -}}
{{- $silent := "- {key: istio-injection, operator: DoesNotExist}\n- {key: istio.io/rev, operator: DoesNotExist}" -}}
{{- $willing := "- {key: sidecar.istio.io/inject, operator: NotIn, values: [\"false\"]}" -}}
{{- $named := printf "- {key: istio.io/rev, operator: In, values: [%q]}" .as -}}
{{ include "fairway.injects" (merge (dict "name" "rev.namespace" "pods" $willing
  "namespaces" (printf "%s\n- {key: istio-injection, operator: DoesNotExist}" $named)) $of) }}
{{ include "fairway.injects" (merge (dict "name" "rev.object" "namespaces" $silent "pods" (printf "%s\n%s" $willing $named)) $of) }}
{{- if eq .as "default" }}
{{ include "fairway.injects" (merge (dict "name" "namespace" "pods" $willing
  "namespaces" "- {key: istio-injection, operator: In, values: [enabled]}") $of) }}
{{ include "fairway.injects" (merge (dict "name" "object" "namespaces" $silent
  "pods" "- {key: sidecar.istio.io/inject, operator: In, values: [\"true\"]}\n- {key: istio.io/rev, operator: DoesNotExist}") $of) }}
{{- if .root.Values.sidecarInjectorWebhook.enableNamespacesByDefault }}
{{- $system := "- {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-public, kube-node-lease, local-path-storage]}" }}
{{ include "fairway.injects" (merge (dict "name" "auto" "namespaces" (printf "%s\n%s" $silent $system)
  "pods" "- {key: sidecar.istio.io/inject, operator: DoesNotExist}\n- {key: istio.io/rev, operator: DoesNotExist}") $of) }}
{{- end }}
{{- end }}
{{- end }}

{{/* One webhook of validation. */}}
{{- define "fairway.validates" -}}
- name: {{ .name }}.istio.io
  clientConfig: {{- include "fairway.client" (dict "root" .root "url" .root.Values.istiodRemote.validationURL "path" "/validate") | nindent 4 }}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules:
  - operations: [CREATE, UPDATE]
    apiGroups: [networking.istio.io, security.istio.io, telemetry.istio.io, extensions.istio.io]
    apiVersions: ["*"]
    resources: ["*"]
  failurePolicy: {{ .root.Values.validation.failurePolicy }}
  timeoutSeconds: {{ .root.Values.validation.timeoutSeconds }}
  objectSelector:
    matchExpressions:
    - {{ .rules }}
{{- end }}
