package inherited

import "slices"

// Reasons that several groups share.
const (
	always  = "it is always on"
	ambient = "there are no ztunnels and waypoints in this mesh"
	logs    = "the log goes to standard error, where the platform collects it"
)

// Control returns the variables and flags of istiod (pilot-discovery).
func Control() Program {
	return Program{Name: "pilot-discovery", Variables: controlVariables(), Flags: controlFlags()}
}

func controlVariables() []Group {
	return slices.Concat(controlInForce(), controlNotNeeded(), controlNotYet())
}

func controlInForce() []Group {
	return []Group{
		group(InForce, "", `AUDIENCE BLOCKED_CIDRS_IN_JWKS_URIS CITADEL_SELF_SIGNED_CA_CERT_TTL
			CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE CLUSTER_ID DEFAULT_WORKLOAD_CERT_TTL ENABLE_CA_SERVER
			ENABLE_NATIVE_SIDECARS INJECT_ENABLED ISTIOD_CUSTOM_HOST JWKS_RESOLVER_INSECURE_SKIP_VERIFY JWT_RULE
			KUBERNETES_SERVICE_HOST MAX_WORKLOAD_CERT_TTL PILOT_CERT_PROVIDER PILOT_ENABLE_GATEWAY_API
			PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER PILOT_ENABLE_GATEWAY_API_STATUS PILOT_JWT_ENABLE_REMOTE_JWKS
			PILOT_JWT_PUB_KEY_REFRESH_INTERVAL PILOT_REMOTE_CLUSTER_TIMEOUT PILOT_SCOPE_GATEWAY_TO_NAMESPACE
			PILOT_WORKLOAD_ENTRY_GRACE_PERIOD POD_NAME POD_NAMESPACE RESOLVE_HOSTNAME_GATEWAYS REVISION ROOT_CA_DIR TOKEN_ISSUER`),
	}
}

func controlNotNeeded() []Group {
	return []Group{
		group(NotNeeded, "a change is sent at once and bursts batch by themselves: there is no delay or throttle to set",
			`PILOT_DEBOUNCE_AFTER PILOT_DEBOUNCE_MAX PILOT_ENABLE_EDS_DEBOUNCE PILOT_PUSH_THROTTLE PILOT_ENABLE_FLOW_CONTROL
			PILOT_FLOW_CONTROL_TIMEOUT ISTIO_ENABLE_OPTIMIZED_SERVICE_PUSH ENABLE_OPTIMIZED_CONFIG_REBUILD`),
		group(NotNeeded, "each resource is computed once and shared by all proxies that see it: there is no cache to size",
			`PILOT_ENABLE_XDS_CACHE PILOT_ENABLE_CDS_CACHE PILOT_ENABLE_RDS_CACHE PILOT_XDS_CACHE_SIZE PILOT_XDS_CACHE_STATS
			PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL`),
		group(NotNeeded, "delta xDS and state of the world are both served, as each client asks", `ISTIO_DELTA_XDS`),
		group(NotNeeded, "/debug/syncz and pilotctl proxy-status always show what each proxy has",
			`PILOT_ENABLE_CONFIG_DISTRIBUTION_TRACKING PILOT_DISTRIBUTION_HISTORY_RETENTION`),
		group(NotNeeded, "problems are always found and written into the objects' status; pilotctl analyze has the rest",
			`PILOT_ENABLE_ANALYSIS PILOT_ANALYSIS_INTERVAL PILOT_ENABLE_STATUS PILOT_STATUS_BURST PILOT_STATUS_MAX_WORKERS
			PILOT_STATUS_QPS PILOT_STATUS_UPDATE_INTERVAL`),
		group(NotNeeded, "proxies are stock Envoys, which have no such filters; metrics are counted otherwise (telemetry.md)",
			`PILOT_ENABLE_METADATA_EXCHANGE PILOT_ENABLE_TELEMETRY_LABEL PILOT_ENDPOINT_TELEMETRY_LABEL ENABLE_WASM_TELEMETRY
			PILOT_ENABLE_TCP_METADATA_EXCHANGE METADATA_EXCHANGE_ADDITIONAL_LABELS`),
		group(NotNeeded, always, `AUTO_RELOAD_PLUGIN_CERTS ENABLE_AUTO_MTLS_CHECK_POLICIES ENABLE_TLS_ON_SIDECAR_INGRESS
			ENABLE_LEADER_ELECTION ISTIO_DUAL_STACK PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY
			PILOT_ENABLE_HEADLESS_SERVICE_POD_LISTENERS PILOT_ENABLE_INBOUND_PASSTHROUGH PILOT_ENABLE_IP_AUTOALLOCATE
			PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_INBOUND
			PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_OUTBOUND PILOT_ENABLE_SERVICEENTRY_SELECT_PODS PILOT_ENABLE_VIRTUAL_SERVICE_DELEGATE
			PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS PILOT_ENABLE_XDS_IDENTITY_CHECK
			PILOT_FILTER_GATEWAY_CLUSTER_CONFIG PILOT_USE_ENDPOINT_SLICE REWRITE_TCP_PROBES XDS_AUTH`),
		group(NotNeeded, "debug pages are for loopback, and for callers with a certificate or token; --profile is a flag",
			`ENABLE_DEBUG_ON_HTTP UNSAFE_ENABLE_ADMIN_ENDPOINTS DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES`),
		group(NotNeeded, "webhooks are found by what they call: this control plane's Service and revision",
			`INJECTION_WEBHOOK_CONFIG_NAME VALIDATION_WEBHOOK_CONFIG_NAME`),
		group(NotNeeded, "of an API server's tokens only those made for this mesh's audience are accepted",
			`JWT_POLICY REQUIRE_3P_TOKEN`),
		group(NotNeeded, "agents fetch extensions, and messages and streams are bounded by --maxRequestBytes and --maxStreams",
			`ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION ISTIO_GPRC_MAXRECVMSGSIZE ISTIO_GPRC_MAXSTREAMS`),
		group(NotNeeded, "--sendTimeout and --newStreamsPerSecond are the bounds here",
			`PILOT_XDS_SEND_TIMEOUT PILOT_MAX_REQUESTS_PER_SECOND`),
		group(NotNeeded, "roots are replaced in an overlap; keys are ECDSA ones", `CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR
			CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE USE_CACERTS_FOR_SELF_SIGNED_CA`),
		group(NotNeeded, "several roots are one bundle for all proxies (MeshConfig's caCertificates)", `ISTIO_MULTIROOT_MESH`),
		group(NotNeeded, "no platform is asked for metadata: localities come from Nodes, labels and agents",
			`CLOUD_PLATFORM GCP_METADATA GCP_QUOTA_PROJECT GCP_ZONE GCP_PROJECT_NUMBER K_REVISION`),
		group(NotNeeded, "it is a check or workaround of Istio's own program", `UNSAFE_PILOT_ENABLE_RUNTIME_ASSERTIONS
			UNSAFE_PILOT_ENABLE_DELTA_TEST PILOT_ENVOY_FILTER_STATS PRIORITIZED_LEADER_ELECTION
			PERSIST_OLDEST_FIRST_HEURISTIC_FOR_VIRTUAL_SERVICE_HOST_MATCHING PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION
			ISTIO_BOOTSTRAP ISTIO_PROMETHEUS_ANNOTATIONS TERMINATION_DRAIN_DURATION_SECONDS MASTER_ELECTION`),
		group(NotNeeded, "native sidecars and kubelets of today need no such group", `ENABLE_LEGACY_FSGROUP_INJECTION`),
		group(NotNeeded, "Istio removed it", `BYPASS_OOP_MTLS_SAN_VERIFICATION ISTIO_LANG MCP_SOURCE_REQ_BURST_SIZE MCP_SOURCE_REQ_FREQ
			SOURCE_SERVER_STREAM_BURST_SIZE SOURCE_SERVER_STREAM_FREQ AUTHZ_FAILURE_LOG_BURST_SIZE AUTHZ_FAILURE_LOG_FREQ
			PILOT_BLOCK_HTTP_ON_443 PILOT_CERT_DIR PILOT_DEBUG_ADSZ_CONFIG PILOT_ENABLE_CRD_VALIDATION ISTIOD_ADDR
			PILOT_ENABLE_DESTINATION_RULE_INHERITANCE PILOT_INITIAL_FETCH_TIMEOUT PILOT_ENABLE_INCREMENTAL_MCP`),
		group(NotNeeded, "peers of other trust domains are accepted only as MeshConfig's trustDomainAliases and caCertificates say",
			`PILOT_SKIP_VALIDATE_TRUST_DOMAIN`),
		group(NotNeeded, "it would let more through than its users expect: gateways forward only to services that they see",
			`PILOT_ENABLE_LEGACY_AUTO_PASSTHROUGH`),
		group(NotNeeded, "the names of the built-in classes of Gateways need no GatewayClass: none is made",
			`PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER`),
		group(NotNeeded, "set tls.insecureSkipVerify of a DestinationRule where a server is not to be verified",
			`VERIFY_CERTIFICATE_AT_CLIENT`),
		group(NotNeeded, ambient, `PILOT_ENABLE_AMBIENT PILOT_ENABLE_AMBIENT_CONTROLLERS PILOT_ENABLE_AMBIENT_WAYPOINTS PILOT_ENABLE_HBONE
			PILOT_ENABLE_SENDING_HBONE PILOT_ENABLE_SIDECAR_LISTENING_HBONE AMBIENT_ENABLE_MULTI_NETWORK AMBIENT_ENABLE_STATUS
			PREFER_HBONE_SEND CA_TRUSTED_NODE_ACCOUNTS`),
	}
}

func controlNotYet() []Group {
	return []Group{
		group(NotYet, "the Gateway API is read where its CRDs are", `PILOT_ENABLE_ALPHA_GATEWAY_API PILOT_ENABLED_SERVICE_APIS
			PILOT_GATEWAY_API_CONTROLLER_NAME PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API
			ENABLE_GATEWAY_API_INFERENCE_EXTENSION`),
		group(NotYet, "services of other clusters are seen by their host; there is no ServiceExport", `ENABLE_MCS_AUTO_EXPORT
			ENABLE_MCS_CLUSTER_LOCAL ENABLE_MCS_HOST ENABLE_MCS_SERVICE_DISCOVERY MCS_API_GROUP MCS_API_VERSION`),
		group(NotYet, "an EnvoyFilter can add the filter of the protocol", `PILOT_ENABLE_MONGO_FILTER PILOT_ENABLE_MYSQL_FILTER
			PILOT_ENABLE_REDIS_FILTER PILOT_ENABLE_THRIFT_FILTER`),
		group(NotYet, "ISTIO_META_HTTP10 of a proxy has that proxy take HTTP/1.0", `PILOT_HTTP10`),
		group(NotYet, "MeshConfig's protocolDetectionTimeout is the one that counts", `PILOT_INBOUND_PROTOCOL_DETECTION_TIMEOUT`),
		group(NotYet, "timeout of a VirtualService's route says it", `ISTIO_DEFAULT_REQUEST_TIMEOUT`),
		group(NotYet, "randomSamplingPercentage of a Telemetry says it, and enableIstioTags the tags",
			`PILOT_TRACE_SAMPLING PILOT_ENABLE_ISTIO_TAGS PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY`),
		group(NotYet, "gateways speak HTTP/1.1 and HTTP/2", `PILOT_ENABLE_QUIC_LISTENERS`),
		group(NotYet, "gateways route by name and port of the Host header", `ISTIO_GATEWAY_STRIP_HOST_PORT`),
		group(NotYet, "gatewayTopology of the proxy's configuration says what its addresses mean", `PILOT_SIDECAR_USE_REMOTE_ADDRESS`),
		group(NotYet, "consistentHash of a DestinationRule keeps a client at its server", `PILOT_ENABLE_PERSISTENT_SESSION_FILTER
			PILOT_PERSISTENT_SESSION_LABEL PILOT_PERSISTENT_SESSION_HEADER_LABEL PILOT_DRAINING_LABEL`),
		group(NotYet, "endpoints of Kubernetes that are not ready are left out", `PILOT_SEND_UNHEALTHY_ENDPOINTS`),
		group(NotYet, "headless Services are reached at the addresses that clients ask for", `PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES`),
		group(NotYet, "a headless Service's names resolve to all of its endpoints that the client's network reaches",
			`ENABLE_MULTICLUSTER_HEADLESS`),
		group(NotYet, "probes are made as kubelets make them", `ENABLE_PROBE_KEEPALIVE_CONNECTIONS
			REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION`),
		group(NotYet, "the own or a plugged-in authority signs certificates; PILOT_CERT_PROVIDER=k8s.io/<signer> is for API servers",
			`CERT_SIGNER_DOMAIN EXTERNAL_CA K8S_SIGNER USE_REMOTE_CERTS`),
		group(NotYet, "a control plane outside its cluster reads it by --kubeconfig", `EXTERNAL_ISTIOD LOCAL_CLUSTER_SECRET_WATCHER`),
		group(NotYet, "kubeconfigs in Secrets prove who reads by a token or certificate in the Secret, and run no program",
			`PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS`),
		group(NotYet, "the namespace of Ingress gateways is found by ingressSelector and ingressService", `K8S_INGRESS_NS`),
		group(NotYet, "one ConfigMap of the mesh configuration is read", `SHARED_MESH_CONFIG`),
		group(NotYet, "caCertificates lists the trusted roots in PEM", `SPIFFE_BUNDLE_ENDPOINTS`),
		group(NotYet, "AUDIENCE or --tokenAudience names the one audience", `TOKEN_AUDIENCES`),
		group(NotYet, "the plaintext address asks for no credentials; bind it to loopback, and use --secureGRPCAddr for other machines",
			`XDS_AUTH_PLAINTEXT`),
		group(NotYet, "inbound listeners are those of the Sidecar's ingress alone if it has one",
			`PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE`),
		group(NotYet, "gatewayTopology and meshNetworks are read, internal addresses are not set", `ENABLE_HCM_INTERNAL_NETWORKS`),
		group(NotYet, "discoverySelectors limit the objects that are read from Kubernetes", `ENABLE_ENHANCED_RESOURCE_SCOPING`),
		group(NotYet, "certificates are checked when they are read", `VERIFY_SDS_CERTIFICATE`),
		group(NotYet, "connections to a ServiceEntry of resolution NONE keep their port", `ENABLE_RESOLUTION_NONE_TARGET_PORT`),
	}
}

func controlFlags() []Group {
	return []Group{
		group(InForce, "", `caCertFile clusterID configDir domain grpcAddr httpAddr httpsAddr keepaliveInterval
			keepaliveMaxServerConnectionAge keepaliveTimeout kubeconfig log_as_json log_output_level meshConfig monitoringAddr namespace
			networksConfig profile registries secureGRPCAddr shutdownDuration tlsCertFile tlsKeyFile`),
		group(NotNeeded, "there is no such page: pilotctl admin log sets levels, and /debug has the rest",
			`ctrlz_address ctrlz_port`),
		group(NotNeeded, logs, `log_rotate log_rotate_max_age log_rotate_max_backups log_rotate_max_size log_target`),
		group(NotNeeded, "lines name what they are about; there are no stacks", `log_caller log_stacktrace_level vklog`),
		group(NotNeeded, "API servers are watched, not polled, and paged", `kubernetesApiBurst kubernetesApiQPS resync`),
		group(NotNeeded, "only TLS 1.3 is served, and all its cipher suites are safe", `tls-cipher-suites`),
		group(NotNeeded, "Istio removed it", `plugins`),
		group(NotYet, "a cluster has one name, that of its Secret's key or --clusterID", `clusterAliases`),
		group(NotYet, "Secrets with kubeconfigs are in the root namespace", `clusterRegistriesNamespace`),
	}
}
