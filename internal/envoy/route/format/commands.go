package format

import "strings"

// The command operators of Envoy's formatter that a rule's header values may have, by whether they take arguments in parentheses. They
// return data about the request and its response, the connections that carry it, and metadata that the control plane put on clusters and
// endpoints. Envoy refuses a configuration with an unknown command (Envoy: Access logging, command operators; each was tried on Envoy
// 1.40).
const (
	plainCommands = `BYTES_RECEIVED BYTES_RETRANSMITTED BYTES_SENT CONNECTION_ID DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED ` +
		`DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT DOWNSTREAM_DETECTED_CLOSE_TYPE DOWNSTREAM_DIRECT_LOCAL_ADDRESS ` +
		`DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID DOWNSTREAM_DIRECT_LOCAL_PORT DOWNSTREAM_DIRECT_REMOTE_ADDRESS ` +
		`DOWNSTREAM_DIRECT_REMOTE_PORT DOWNSTREAM_HANDSHAKE_DURATION DOWNSTREAM_HEADER_BYTES_RECEIVED DOWNSTREAM_HEADER_BYTES_SENT ` +
		`DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID DOWNSTREAM_LOCAL_DNS_SAN DOWNSTREAM_LOCAL_EMAIL_SAN ` +
		`DOWNSTREAM_LOCAL_IP_SAN DOWNSTREAM_LOCAL_OTHERNAME_SAN DOWNSTREAM_LOCAL_PORT DOWNSTREAM_LOCAL_SUBJECT ` +
		`DOWNSTREAM_LOCAL_URI_SAN DOWNSTREAM_PEER_CERT DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1 DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256 ` +
		`DOWNSTREAM_PEER_CHAIN_SERIALS DOWNSTREAM_PEER_DNS_SAN DOWNSTREAM_PEER_EMAIL_SAN DOWNSTREAM_PEER_FINGERPRINT_1 ` +
		`DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_IP_SAN DOWNSTREAM_PEER_ISSUER DOWNSTREAM_PEER_ISSUER_FINGERPRINT_256 ` +
		`DOWNSTREAM_PEER_ISSUER_SERIAL DOWNSTREAM_PEER_OTHERNAME_SAN DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_SUBJECT ` +
		`DOWNSTREAM_PEER_URI_SAN DOWNSTREAM_REMOTE_ADDRESS DOWNSTREAM_REMOTE_PORT DOWNSTREAM_TLS_CIPHER DOWNSTREAM_TLS_GROUP ` +
		`DOWNSTREAM_TLS_VERSION DOWNSTREAM_WIRE_BYTES_RECEIVED DOWNSTREAM_WIRE_BYTES_SENT DURATION FILTER_CHAIN_NAME ` +
		`GRPC_STATUS_NUMBER HOSTNAME PROTOCOL QUERY_PARAMS REQUESTED_SERVER_NAME REQUEST_DURATION REQUEST_HEADERS_BYTES ` +
		`REQUEST_TX_DURATION RESPONSE_CODE RESPONSE_DURATION RESPONSE_FLAGS RESPONSE_FLAGS_LONG RESPONSE_HEADERS_BYTES ` +
		`RESPONSE_TRAILERS_BYTES RESPONSE_TX_DURATION ROUNDTRIP_DURATION ROUTE_NAME SPAN_ID STREAM_ID TLS_JA3_FINGERPRINT ` +
		`TLS_JA4_FINGERPRINT TRACE_ID UNIQUE_ID UPSTREAM_CLUSTER UPSTREAM_CLUSTER_RAW UPSTREAM_CONNECTION_ID ` +
		`UPSTREAM_CONNECTION_IDS_ATTEMPTED UPSTREAM_CONNECTION_POOL_READY_DURATION UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED ` +
		`UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT UPSTREAM_DETECTED_CLOSE_TYPE UPSTREAM_HEADER_BYTES_RECEIVED ` +
		`UPSTREAM_HEADER_BYTES_SENT UPSTREAM_HOST UPSTREAM_HOSTS_ATTEMPTED UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT UPSTREAM_HOST_NAME ` +
		`UPSTREAM_HOST_NAMES_ATTEMPTED UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT UPSTREAM_HOST_NAME_WITHOUT_PORT ` +
		`UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_DNS_SAN UPSTREAM_LOCAL_IP_SAN UPSTREAM_LOCAL_PORT UPSTREAM_LOCAL_URI_SAN ` +
		`UPSTREAM_PEER_CERT UPSTREAM_PEER_DNS_SAN UPSTREAM_PEER_IP_SAN UPSTREAM_PEER_ISSUER UPSTREAM_PEER_SUBJECT ` +
		`UPSTREAM_PEER_URI_SAN UPSTREAM_PROTOCOL UPSTREAM_REMOTE_ADDRESS UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID UPSTREAM_REMOTE_PORT ` +
		`UPSTREAM_REQUEST_ATTEMPT_COUNT UPSTREAM_SERVER_NAME UPSTREAM_TLS_CIPHER UPSTREAM_TLS_GROUP UPSTREAM_TLS_VERSION ` +
		`UPSTREAM_WIRE_BYTES_RECEIVED UPSTREAM_WIRE_BYTES_SENT VIRTUAL_CLUSTER_NAME`
	eitherCommands = `DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT ` +
		`DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT DOWNSTREAM_PEER_CERT_V_END DOWNSTREAM_PEER_CERT_V_START ` +
		`DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT EMIT_TIME EMIT_TIME_LOCAL GRPC_STATUS PATH RESPONSE_CODE_DETAILS START_TIME ` +
		`START_TIME_LOCAL UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT UPSTREAM_PEER_CERT_V_END UPSTREAM_PEER_CERT_V_START ` +
		`UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT`
	argumentCommands = `CLUSTER_METADATA COMMON_DURATION QUERY_PARAM REQ REQUEST_HEADER RESP TRAILER UPSTREAM_METADATA`
)

// withheldCommands are commands that Envoy knows but rules may not have, because a rule's author is not the proxy's owner. They return
// data of the proxy itself (variables of its environment, its node, internal data of its filters, TLS sessions, reasons that name its
// files or others' policies), or evaluate a language that gives access to the same data (CEL, COALESCE).
const withheldCommands = `ACCESS_LOG_TYPE CONNECTION_TERMINATION_DETAILS CUSTOM_FLAGS DOWNSTREAM_LOCAL_CLOSE_REASON DOWNSTREAM_TLS_SESSION_ID ` +
	`DOWNSTREAM_TRANSPORT_FAILURE_REASON LOCAL_REPLY_BODY UPSTREAM_LOCAL_CLOSE_REASON UPSTREAM_TLS_SESSION_ID ` +
	`UPSTREAM_TRANSPORT_FAILURE_REASON CEL COALESCE DYNAMIC_METADATA ENVIRONMENT FILTER_STATE METADATA PER_REQUEST_STATE ` +
	`STREAM_INFO_REQ TYPED_CEL UPSTREAM_FILTER_STATE`

// Limits of one value.
const (
	maxCommands = 64  // each is evaluated for each request
	maxArgument = 256 // bytes between the parentheses
	maxDigits   = 5   // of a :length
)

func listed(list, name string) bool {
	return name != "" && strings.Contains(" "+list+" ", " "+name+" ")
}

// allowedCommand reports whether a rule may have the command, with or without arguments.
func allowedCommand(name string, arguments bool) bool {
	return listed(eitherCommands, name) || arguments && listed(argumentCommands, name) || !arguments && listed(plainCommands, name)
}

// Withheld returns the first command in v that Envoy knows and rules may not have; "" if there is none. It checks the text after each
// percent sign, so it also finds a command inside another's arguments.
func Withheld(v string) string {
	for rest, found := v, true; found; {
		_, rest, found = strings.Cut(rest, "%")
		if name := rest[:commandName(rest)]; listed(withheldCommands, name) {
			return name
		}
	}
	return ""
}

// commandName returns the length of a command's name at the start of v.
func commandName(v string) (n int) {
	for n < len(v) && ('A' <= v[n] && v[n] <= 'Z' || '0' <= v[n] && v[n] <= '9' || v[n] == '_') {
		n++
	}
	return n
}

// argument reports whether the text between a command's parentheses is allowed. Only formats of times may have percent signs.
func argument(name, s string) bool {
	if len(s) > maxArgument || !strings.Contains(name, "_TIME") && !strings.Contains(name, "CERT_V_") && strings.ContainsAny(s, "%(") ||
		strings.Contains(s, "(") {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
