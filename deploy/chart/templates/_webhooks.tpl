{{/* One webhook of injection: what it is called, and which namespaces and pods it is asked for. */}}
{{- define "fairway.injects" -}}
- name: {{ .name }}.sidecar-injector.istio.io
  clientConfig: {{- include "fairway.client" (dict "root" .root "url" .root.Values.istiodRemote.injectionURL "path" "/inject") | nindent 4 }}
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
{{- $silent := "- {key: istio-injection, operator: DoesNotExist}\n- {key: istio.io/rev, operator: DoesNotExist}" -}}
{{- $willing := "- {key: sidecar.istio.io/inject, operator: NotIn, values: [\"false\"]}" -}}
{{- $named := printf "- {key: istio.io/rev, operator: In, values: [%q]}" .as -}}
{{ include "fairway.injects" (dict "root" .root "name" "rev.namespace" "pods" $willing
  "namespaces" (printf "%s\n- {key: istio-injection, operator: DoesNotExist}" $named)) }}
{{ include "fairway.injects" (dict "root" .root "name" "rev.object" "namespaces" $silent "pods" (printf "%s\n%s" $willing $named)) }}
{{- if eq .as "default" }}
{{ include "fairway.injects" (dict "root" .root "name" "namespace" "pods" $willing
  "namespaces" "- {key: istio-injection, operator: In, values: [enabled]}") }}
{{ include "fairway.injects" (dict "root" .root "name" "object" "namespaces" $silent
  "pods" "- {key: sidecar.istio.io/inject, operator: In, values: [\"true\"]}\n- {key: istio.io/rev, operator: DoesNotExist}") }}
{{- if .root.Values.sidecarInjectorWebhook.enableNamespacesByDefault }}
{{- $system := "- {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-public, kube-node-lease, local-path-storage]}" }}
{{ include "fairway.injects" (dict "root" .root "name" "auto" "namespaces" (printf "%s\n%s" $silent $system)
  "pods" "- {key: sidecar.istio.io/inject, operator: DoesNotExist}\n- {key: istio.io/rev, operator: DoesNotExist}") }}
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
