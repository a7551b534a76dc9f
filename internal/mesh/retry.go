package mesh

// RetryConditions are Envoy's conditions for a retry: those of x-envoy-retry-on and x-envoy-retry-grpc-on
// (https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter#x-envoy-retry-on).
var RetryConditions = [...]string{
	"5xx",
	"gateway-error",
	"reset",
	"reset-before-request",
	"connect-failure",
	"envoy-ratelimited",
	"retriable-4xx",
	"refused-stream",
	"retriable-status-codes",
	"retriable-headers",
	"http3-post-connect-failure",
	"cancelled",
	"deadline-exceeded",
	"internal",
	"resource-exhausted",
	"unavailable",
}
