package input

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Tracing returns the default settings of spans (MeshConfig.defaultConfig.tracing), and the provider that gets the spans by default; nil:
// none.
func (t *Tables) Tracing(r *table.Reader) (*meshconfig.Tracing, *meshconfig.MeshConfig_ExtensionProvider) {
	said := t.field(r, "default_config").GetDefaultConfig().GetTracing()
	if !t.field(r, "enable_tracing").GetEnableTracing() {
		return said, nil
	}
	return said, t.tracerOf(r, said)
}

// tracerOf returns the provider that a Tracing sends spans to; nil: stock Envoy can send them nowhere.
func (t *Tables) tracerOf(r *table.Reader, said *meshconfig.Tracing) *meshconfig.MeshConfig_ExtensionProvider {
	address, ok := tracerAddress(said)
	if !ok {
		return nil
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return nil
	}
	host = t.fullName(r, host)
	switch to := said.GetTracer().(type) {
	case *meshconfig.Tracing_Zipkin_:
		return &meshconfig.MeshConfig_ExtensionProvider{Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{
			Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: host, Port: port},
		}}
	case *meshconfig.Tracing_Datadog_:
		return &meshconfig.MeshConfig_ExtensionProvider{Provider: &meshconfig.MeshConfig_ExtensionProvider_Datadog{
			Datadog: &meshconfig.MeshConfig_ExtensionProvider_DatadogTracingProvider{Service: host, Port: port},
		}}
	case *meshconfig.Tracing_Lightstep_: // its satellites take spans of OpenTelemetry
		otel := &meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider{Service: host, Port: port}
		if token := to.Lightstep.GetAccessToken(); token != "" {
			otel.Grpc = &meshconfig.MeshConfig_ExtensionProvider_GrpcService{
				InitialMetadata: []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader{{
					Name:        "lightstep-access-token",
					HeaderValue: &meshconfig.MeshConfig_ExtensionProvider_HttpHeader_Value{Value: token},
				}},
			}
		}
		return &meshconfig.MeshConfig_ExtensionProvider{
			Provider: &meshconfig.MeshConfig_ExtensionProvider_Opentelemetry{Opentelemetry: otel},
		}
	}
	return nil
}

// tracerAddress returns the address that a Tracing sends spans to; false: there is none, or stock Envoy lacks the tracer.
func tracerAddress(said *meshconfig.Tracing) (address string, ok bool) {
	switch to := said.GetTracer().(type) {
	case *meshconfig.Tracing_Zipkin_:
		return to.Zipkin.GetAddress(), true
	case *meshconfig.Tracing_Datadog_:
		return to.Datadog.GetAddress(), true
	case *meshconfig.Tracing_Lightstep_:
		return to.Lightstep.GetAddress(), true
	}
	return "", false
}

func splitAddress(address string) (host string, port uint32, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && (host == "" || n == 0) {
		err = fmt.Errorf("%q has no host, or no port", address)
	}
	return host, uint32(n), err
}

// fullName returns the full host for a name within the cluster: "zipkin" of the root namespace, "zipkin.tools", "zipkin.tools.svc".
func (t *Tables) fullName(r *table.Reader, host string) string {
	switch dots := strings.Count(host, "."); {
	case strings.HasSuffix(host, ".svc") && dots == 2:
		return host + "." + t.DomainSuffix()
	case dots == 0:
		return host + "." + t.RootNamespace(r) + ".svc." + t.DomainSuffix()
	case dots == 1:
		return host + ".svc." + t.DomainSuffix()
	}
	return host
}

// noteTracing notes what has no effect in the mesh's defaultConfig.tracing.
func noteTracing(r *table.Reader, o *config.Object, said *meshconfig.Tracing, on bool) {
	name := tracer(said)
	field := "defaultConfig.tracing." + name
	address, known := tracerAddress(said)
	switch _, _, err := splitAddress(address); {
	case name == "":
	case !known:
		r.Note(o.Problem(field, code.BadTelemetry, mesh.Error, "stock Envoy has no such tracer: no spans are sent",
			"write zipkin, or name a provider of kind opentelemetry in defaultProviders.tracing"))
	case err != nil:
		r.Note(o.Problem(field+".address", code.BadTelemetry, mesh.Error, "this is not where a service is: no spans are sent",
			"write a host and a port as zipkin.istio-system:9411"))
	case !on:
		r.Note(o.Problem(field, code.Unused, mesh.Info, "no spans are sent, as enableTracing is false", ""))
	}
	if mode := said.GetTlsSettings().GetMode(); said.GetTlsSettings() != nil && mode != networking.ClientTLSSettings_ISTIO_MUTUAL {
		r.Note(o.Problem("defaultConfig.tracing.tlsSettings", code.Unused, mesh.Warning,
			"the field does nothing here: spans are sent to the tracer's service as its DestinationRule says",
			"write these settings as trafficPolicy.tls of a DestinationRule for that host"))
	}
}
