{{/* The groups of deploy/alerts/fairway.yaml: a test compares them. */}}
{{- define "fairway.alerts" -}}
{{ `groups:
- name: fairway-control-plane
  rules:
  - alert: FairwayControlPlaneAway
    expr: absent(pilot_info)
    for: 5m
    labels: {severity: critical}
    annotations:
      summary: No control plane is scraped.
      description: Proxies go on with what they have, but no change reaches them and no certificate is renewed.
  - alert: FairwayProxiesLost
    expr: sum(pilot_xds) < 0.5 * sum(pilot_xds offset 15m)
    for: 5m
    labels: {severity: critical}
    annotations:
      summary: Fewer than half of the proxies of 15 minutes ago are connected.
      description: "{{ $value }} proxies are connected. Look at pilotctl proxy-status and at an agent's log."
  - alert: FairwayProblems
    expr: max by (code) (fairway_problems_by_code{severity="error"}) > 0
    for: 15m
    labels: {severity: warning}
    annotations:
      summary: "Rules have errors: {{ $labels.code }}."
      description: "{{ $value }} errors; earlier versions stay in force. pilotctl problems names file, line, field and the right value."
  - alert: FairwayProxiesRefuse
    expr: sum(pilot_xds_cds_reject) + sum(pilot_xds_eds_reject) + sum(pilot_xds_lds_reject) + sum(pilot_xds_rds_reject) > 0
    for: 5m
    labels: {severity: warning}
    annotations:
      summary: Proxies refuse something that they were sent.
      description: "{{ $value }} proxies keep an earlier version. pilotctl problems has the code Refused with the object behind it."
  - alert: FairwaySourceStale
    expr: max by (source) (fairway_source_stale_seconds) > 300
    labels: {severity: critical}
    annotations:
      summary: "{{ $labels.source }} has not been read for five minutes."
      description: Its last state stays in force. pilotctl problems has the reason.
  - alert: FairwaySlowChanges
    expr: histogram_quantile(0.99, sum by (le) (rate(pilot_proxy_convergence_time_bucket[5m]))) > 5
    for: 10m
    labels: {severity: warning}
    annotations:
      summary: One change in a hundred takes longer than 5 s to reach a proxy.
      description: "{{ $value }} s. Slow proxies or a busy control plane; pilotctl history shows what turns cost."
  - alert: FairwayStreamsRefused
    expr: sum by (reason) (rate(fairway_xds_refused_total[5m])) > 1
    for: 10m
    labels: {severity: warning}
    annotations:
      summary: "Proxies are not let in: {{ $labels.reason }}."
      description: "{{ $value }} streams a second. The control plane's log names some of them."
  - alert: FairwayOwnMistakes
    expr: >-
      sum(increase(pilot_total_xds_internal_errors[15m])) + sum(increase(fairway_panics_total[15m])) +
      sum(increase(fairway_audit_divergence_total[15m])) > 0
    labels: {severity: warning}
    annotations:
      summary: The control plane found a mistake of its own.
      description: Traffic goes on. pilotctl bug-report collects what a report needs.
- name: fairway-certificates
  rules:
  - alert: FairwayRootEnds
    expr: (min(citadel_server_root_cert_expiry_timestamp > 0) - time()) / 86400 < 30
    labels: {severity: warning}
    annotations:
      summary: The root certificate ends within 30 days.
      description: "In {{ $value }} days no proxy trusts another any more. docs/identity.md says how roots are replaced."
  - alert: FairwaySigningEnds
    expr: (min(citadel_server_cert_chain_expiry_timestamp > 0) - time()) / 86400 < 7
    labels: {severity: critical}
    annotations:
      summary: The signing certificate ends within 7 days.
      description: "In {{ $value }} days no certificate is renewed any more."
  - alert: FairwayRevocationsEnd
    expr: (min(fairway_ca_crl_expiry_timestamp > 0) - time()) / 3600 < 24
    labels: {severity: critical}
    annotations:
      summary: A list of revoked certificates ends within a day.
      description: "In {{ $value }} hours proxies refuse every certificate of its issuer."
  - alert: FairwayCertificatesRefused
    expr: sum by (error) (rate(citadel_server_csr_sign_err_count[5m])) > 0
    for: 10m
    labels: {severity: warning}
    annotations:
      summary: "Requests for certificates are refused: {{ $labels.error }}."
      description: Workloads whose certificate ends lose their connections.
  - alert: FairwayKeysMissing
    expr: >-
      sum(increase(pilot_jwks_resolver_network_fetch_fail_total[30m])) > 0
      unless sum(increase(pilot_jwks_resolver_network_fetch_success_total[30m])) > 0
    for: 15m
    labels: {severity: warning}
    annotations:
      summary: No issuer of tokens gives its keys.
      description: Requests with tokens of new keys are refused. /debug/jwksz has the reason.
- name: fairway-pods
  rules:
  - alert: FairwayInjectionFails
    expr: sum(rate(sidecar_injection_failure_total[5m])) > 0
    for: 10m
    labels: {severity: warning}
    annotations:
      summary: Pods cannot be injected.
      description: They do not start. The control plane's log names them.
  - alert: FairwayEnvoysCrash
    expr: sum by (namespace, pod) (increase(istio_agent_envoy_crashes_total[15m])) > 1
    labels: {severity: warning}
    annotations:
      summary: "The Envoy of {{ $labels.namespace }}/{{ $labels.pod }} crashes."
      description: "{{ $value }} times in 15 minutes. Its agent's log has the reason."
  - alert: FairwayAgentsAlone
    expr: count(istio_agent_xds_relay_connected == 0) > 0
    for: 5m
    labels: {severity: warning}
    annotations:
      summary: Agents do not reach a control plane.
      description: "{{ $value }} agents. Their readiness and log have the reason."
- name: fairway-traffic
  rules:
  - alert: FairwayRequestsFail
    expr: >-
      sum by (destination_service) (rate(istio_requests_total{reporter="source", response_code=~"5.."}[5m]))
      / sum by (destination_service) (rate(istio_requests_total{reporter="source"}[5m])) > 0.05
    for: 10m
    labels: {severity: warning}
    annotations:
      summary: "Requests to {{ $labels.destination_service }} fail."
      description: "{{ $value | humanizePercentage }} are answered 5xx. pilotctl explain --log says what a line of an access log means."` }}
{{- end }}
