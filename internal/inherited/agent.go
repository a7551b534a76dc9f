package inherited

// Agent returns the variables and flags of pilot-agent.
func Agent() Program {
	return Program{Name: "pilot-agent", Variables: agentVariables(), Flags: agentFlags()}
}

func agentVariables() []Group {
	return []Group{
		group(InForce, "", `CA_ADDR CA_ROOT_CA DNS_PROXY_ADDR ECC_SIGNATURE_ALGORITHM ENVOY_PROMETHEUS_PORT ENVOY_STATUS_PORT
			EXIT_ON_ZERO_ACTIVE_CONNECTIONS FILE_MOUNTED_CERTS INSTANCE_IP ISTIOD_SAN ISTIO_BOOTSTRAP_OVERRIDE ISTIO_CPU_LIMIT
			ISTIO_DUAL_STACK ISTIO_KUBE_APP_PROBERS ISTIO_META_CLUSTER_ID ISTIO_META_DNS_CAPTURE ISTIO_OUTBOUND_OWNER_GROUPS
			ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE ISTIO_PROMETHEUS_ANNOTATIONS MINIMUM_DRAIN_DURATION OUTPUT_CERTS POD_NAME
			POD_NAMESPACE PROV_CERT PROXY_CONFIG SECRET_GRACE_PERIOD_RATIO SECRET_GRACE_PERIOD_RATIO_JITTER SECRET_TTL
			SERVICE_ACCOUNT TERMINATION_DRAIN_DURATION_SECONDS TRUST_DOMAIN WORKLOAD_IDENTITY_SOCKET_FILE WORKLOAD_RSA_KEY_SIZE`),

		group(NotNeeded, "the token's file is found at its usual place, or JWT_TOKEN_PATH names it", `JWT_POLICY`),
		group(NotNeeded, "it says what Envoy runs as; the agent's own user runs Envoy", `ENVOY_USER`),
		group(NotNeeded, "changes of files are noticed within --watchInterval and read when they are whole", `FILE_DEBOUNCE_DURATION`),
		group(NotNeeded, "keys are PKCS#8 always", `PKCS8_KEY`),
		group(NotNeeded, "the agent is on the stream already: --xdsRelay says where Envoy speaks to the control plane through it",
			`PROXY_XDS_VIA_AGENT PROXY_CONFIG_XDS_AGENT BOOTSTRAP_XDS_AGENT ISTIO_DELTA_XDS`),
		group(NotNeeded, "pilotctl x internal-debug asks the control plane itself",
			`PROXY_XDS_DEBUG_VIA_AGENT PROXY_XDS_DEBUG_VIA_AGENT_PORT`),
		group(NotNeeded, "localities come from labels, Nodes and --locality: no platform is asked",
			`CLOUD_PLATFORM GCP_METADATA GCP_ZONE GCP_PROJECT_NUMBER GCP_QUOTA_PROJECT GKE_CLUSTER_URL AWS_REGION`),
		group(NotNeeded, ambient, `ISTIO_ENABLE_HBONE ENABLE_HBONE`),
		group(NotNeeded, "it belongs to the control plane, not to agents", `CENTRAL_ISTIOD CLUSTER_ID ENABLE_CA_SERVER
			ENABLE_INGRESS_GATEWAY_SDS EXTERNAL_ISTIOD INGRESS_GATEWAY_NAMESPACE INJECTION_WEBHOOK_CONFIG_NAME ISTIOD_CUSTOM_HOST
			ISTIO_BOOTSTRAP ISTIO_DEFAULT_REQUEST_TIMEOUT ISTIO_GPRC_MAXRECVMSGSIZE ISTIO_GPRC_MAXSTREAMS PILOT_CERT_PROVIDER
			PILOT_DEBOUNCE_AFTER PILOT_DEBOUNCE_MAX PILOT_ENABLE_ANALYSIS PILOT_ENABLE_EDS_DEBOUNCE REVISION`),
		group(NotNeeded, "Istio removed it", `DNS_ADDR DNS_AGENT DNS_CAPTURE DNS_SERVER INITIAL_BACKOFF_MSEC USE_TOKEN_FOR_CSR
			PLUGINS TOKEN_MANAGER_PLUGIN STALED_CONNECTION_RECYCLE_RUN_INTERVAL`),

		group(NotYet, "the authority at CA_ADDR speaks Istio's protocol", `CA_PROVIDER ISTIO_META_CERT_SIGNER`),
		group(NotYet, "the agent shows its certificate or its token's file", `CREDENTIAL_FETCHER_TYPE CREDENTIAL_IDENTITY_PROVIDER
			XDS_AUTH_PROVIDER`),
		group(NotYet, "CA_ROOT_CA says what the control plane is known by as well", `XDS_ROOT_CA`),
		group(NotYet, "questions go to one name server after the other", `DNS_FORWARD_PARALLEL`),
		group(NotYet, "an agent always runs an Envoy", `DISABLE_ENVOY GRPC_XDS_BOOTSTRAP`),
		group(NotYet, "modules are fetched and kept by the agent's own bounds (extensions.md)", `WASM_INSECURE_REGISTRIES
			WASM_MODULE_EXPIRY WASM_PURGE_INTERVAL WASM_HTTP_REQUEST_TIMEOUT WASM_HTTP_REQUEST_MAX_RETRIES`),
		group(NotYet, "gatewayTopology.proxyProtocol is for listeners of the mesh; the port of readiness takes plain HTTP",
			`ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL`),
		group(NotYet, "probes are made as kubelets make them", `ENABLE_PROBE_KEEPALIVE_CONNECTIONS
			REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION`),
	}
}

func agentFlags() []Group {
	return []Group{
		group(InForce, "", `concurrency domain log_as_json log_output_level meshConfig proxyComponentLogLevel proxyLogLevel serviceCluster`),
		group(NotNeeded, logs, `log_rotate log_rotate_max_age log_rotate_max_backups log_rotate_max_size log_target`),
		group(NotNeeded, "lines name what they are about; there are no stacks", `log_caller log_stacktrace_level vklog`),
		group(NotNeeded, "TRUST_DOMAIN names the expected trust domain; the certificate names the workload", `trust-domain`),
		group(NotNeeded, "who the proxy is comes from POD_NAME, POD_NAMESPACE and INSTANCE_IP", `id ip`),
		group(NotNeeded, "Istio removed it", `disableInternalTelemetry mixerIdentity serviceregistry`),
		group(NotNeeded, "the agent has no page of profiles", `profiling`),
		group(NotYet, "proxyMetadata and customConfigFile of the proxy's configuration change the bootstrap", `templateFile`),
		group(NotYet, "there is no token service", `stsPort tokenManagerPlugin`),
		group(NotYet, "an EnvoyFilter of BOOTSTRAP names the event log of ejected hosts", `outlierLogPath`),
	}
}

// Interception returns the flags of the agent's command that sets up the kernel to send connections to Envoy (istio-iptables).
func Interception() Program {
	return Program{Name: "pilot-agent iptables", Flags: []Group{
		group(InForce, "", `capture-all-dns cleanup-only drop-invalid dry-run dual-stack envoy-port inbound-capture-port inbound-tunnel-port
			istio-exclude-interfaces istio-inbound-interception-mode istio-inbound-ports istio-inbound-tproxy-mark
			istio-inbound-tproxy-route-table istio-local-exclude-ports istio-local-outbound-ports-exclude istio-outbound-ports
			istio-service-cidr istio-service-exclude-cidr kube-virt-interfaces network-namespace proxy-gid proxy-uid redirect-dns
			skip-rule-apply`),
		group(NotNeeded, "rules that differ are always replaced", `force-apply reconcile`),
		group(NotNeeded, "--network-namespace says where the rules are made", `cni-mode`),
		group(NotNeeded, "the back-end that already has rules is used, else nftables; --backend names one",
			`iptables-version native-nftables`),
		group(NotNeeded, "the command prints what it did, and nothing else",
			`log_as_json log_output_level log_rotate log_rotate_max_age log_rotate_max_backups log_rotate_max_size log_target
			log_caller log_stacktrace_level vklog`),
		group(NotNeeded, "Istio removed it", `output-paths restore-format`),
		group(NotYet, "no connection tries the rules: the command fails unless the kernel took all of them",
			`run-validation iptables-probe-port probe-timeout`),
		group(NotYet, "--backend iptables-legacy does it", `force-legacy-iptables`),
		group(NotYet, "the rules log nothing", `iptables-trace-logging`),
	}}
}
