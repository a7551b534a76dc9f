package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previous_hostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previous_prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// The defaults for rules without these fields (HTTPRoute.retries, HTTPRetry.retry_on).
const (
	defaultAttempts = 2
	defaultRetryOn  = "connect-failure,refused-stream,unavailable,cancelled"
)

// DefaultRetry returns the retry policy of a route without retry settings: the mesh's own, or the documented one if mesh is nil. It
// returns nil if nothing is retried.
func DefaultRetry(mesh *networking.HTTPRetry) *routev3.RetryPolicy {
	b := Builder{Retry: mesh}
	return b.retry("", nil)
}

// retry translates HTTPRetry. It returns nil if nothing is retried: no virtual host has a policy that a route without one would inherit.
func (b *Builder) retry(field string, in *networking.HTTPRetry) *routev3.RetryPolicy {
	if in == nil {
		in, field = b.Retry, ""
	}
	attempts := int32(defaultAttempts)
	if in != nil {
		attempts = in.GetAttempts()
	}
	if attempts <= 0 {
		return nil
	}
	out := &routev3.RetryPolicy{NumRetries: wrapperspb.UInt32(uint32(attempts)), PerTryTimeout: positive(in.GetPerTryTimeout())}
	b.retryOn(out, field+".retryOn", in.GetRetryOn())
	b.backoff(out, in.GetBackoff())
	if v := in.GetRetryIgnorePreviousHosts(); v == nil || v.GetValue() {
		ignorePreviousHosts(out)
	}
	if in.GetRetryRemoteLocalities().GetValue() {
		out.RetryPriority = &routev3.RetryPolicy_RetryPriority{
			Name: "envoy.retry_priorities.previous_priorities",
			ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
				TypedConfig: envoy.Any(&previous_prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
			},
		}
	}
	return out
}

// ignorePreviousHosts makes Envoy retry on an endpoint that has not failed yet. Envoy chooses at random until it finds one, eleven times
// at most: with two endpoints, it finds the other one in 2,047 of 2,048 cases.
func ignorePreviousHosts(out *routev3.RetryPolicy) {
	out.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
		Name:       "envoy.retry_host_predicates.previous_hosts",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: envoy.Any(&previous_hostsv3.PreviousHostsPredicate{})},
	}}
	out.HostSelectionRetryMaxAttempts = 10
}

// retryOn separates Envoy's conditions from status codes, which may be among them.
func (b *Builder) retryOn(out *routev3.RetryPolicy, field, on string) {
	if on == "" {
		on = defaultRetryOn
	}
	var conditions []string
	for part := range strings.SplitSeq(on, ",") {
		part = strings.TrimSpace(part)
		status, err := strconv.ParseUint(part, 10, 32)
		switch {
		case part == "":
		case err != nil:
			conditions = append(conditions, part)
			b.knownRetry(field, part)
		case status < 100 || status > 599:
			b.problem(mesh.Error, code.BadRetryOn, field, fmt.Sprintf("%d is not a status code: it is ignored", status), "")
		default:
			out.RetriableStatusCodes = append(out.RetriableStatusCodes, uint32(status))
		}
	}
	if len(out.RetriableStatusCodes) > 0 && !slices.Contains(conditions, "retriable-status-codes") {
		conditions = append(conditions, "retriable-status-codes")
	}
	out.RetryOn = strings.Join(conditions, ",")
}

// knownRetry notes a condition that Envoy does not have: Envoy ignores unknown conditions.
func (b *Builder) knownRetry(field, on string) {
	if !slices.Contains(mesh.RetryConditions[:], on) {
		b.problem(mesh.Warning, code.UnknownRetryOn, field, quote(on)+" is not a condition that Envoy retries on",
			"use status codes or "+strings.Join(mesh.RetryConditions[:], ", "))
	}
}

// backoff sets the minimum time between attempts; the maximum is ten times as long.
func (b *Builder) backoff(out *routev3.RetryPolicy, d *durationpb.Duration) {
	if positive(d) == nil {
		return
	}
	base := max(d.AsDuration(), time.Millisecond)
	out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(base), MaxInterval: durationpb.New(10 * base)}
}

// positive returns d, or nil if d is not positive.
func positive(d *durationpb.Duration) *durationpb.Duration {
	if d.AsDuration() <= 0 {
		return nil
	}
	return d
}
