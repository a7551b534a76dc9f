package live

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ext_procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// Picker starts an endpoint picker (the inference extension's Endpoint Picker Protocol) at port Backing of the address of its name, with
// TLS and a certificate that no authority signed. It waits for the body of a request, and picks the endpoints that the request's header
// x-pick lists. In the place of endpoints, "none" picks nothing, and "busy" answers 429. With the header x-pick-by: header it names the
// endpoints in the request's header alone, otherwise in metadata too. Responses get the headers x-picked-by and x-served, the endpoint
// that served the request as the proxy tells it. The streams that FailNext says end with an error.
func (m *Mesh) Picker(t testing.TB, name string) *Backend {
	t.Helper()
	pair := newAuthority(t, name, t.TempDir()).Issue(t, name+".picker.example")
	return m.calls(t, name, func(b *Backend) *grpc.Server {
		server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair.Certificate)))
		ext_procv3.RegisterExternalProcessorServer(server, picker{b: b})
		return server
	})
}

type picker struct {
	ext_procv3.UnimplementedExternalProcessorServer
	b *Backend
}

const pickedEndpoint = "x-gateway-destination-endpoint"

// Process answers for one request as Picker's comment says.
func (p picker) Process(stream ext_procv3.ExternalProcessor_ProcessServer) error {
	var header http.Header // of the request
	var body []byte
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var out []*ext_procv3.ProcessingResponse
		switch {
		case in.GetRequestHeaders() != nil:
			p.b.count.Add(1)
			if p.b.fail.Add(-1) >= 0 {
				return status.Error(codes.Internal, "the picker fails")
			}
			header = headerOf(in.GetRequestHeaders().GetHeaders())
			if in.GetRequestHeaders().GetEndOfStream() {
				out = p.pick(header, nil)
			}
		case in.GetRequestBody() != nil:
			body = append(body, in.GetRequestBody().GetBody()...)
			if in.GetRequestBody().GetEndOfStream() {
				out = append(p.pick(header, body), requestBody(body))
			}
		case in.GetResponseHeaders() != nil:
			out = []*ext_procv3.ProcessingResponse{p.served(in)}
		case in.GetResponseBody() != nil:
			out = []*ext_procv3.ProcessingResponse{{Response: &ext_procv3.ProcessingResponse_ResponseBody{
				ResponseBody: streamed(in.GetResponseBody().GetBody(), in.GetResponseBody().GetEndOfStream()),
			}}}
		}
		for _, o := range out {
			if err := stream.Send(o); err != nil {
				return err
			}
		}
	}
}

// pick answers the headers of a request.
func (p picker) pick(header http.Header, body []byte) []*ext_procv3.ProcessingResponse {
	p.b.note(Echo{
		Server: p.b.Name, Method: first(header, ":method"), Path: first(header, ":path"), Host: first(header, ":authority"), Header: header,
		Body: string(body),
	})
	endpoints := header.Get("x-pick")
	out := &ext_procv3.ProcessingResponse{}
	headers := &ext_procv3.CommonResponse{HeaderMutation: &ext_procv3.HeaderMutation{}}
	switch endpoints {
	case "busy":
		out.Response = &ext_procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &ext_procv3.ImmediateResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode_TooManyRequests},
		}}
		return []*ext_procv3.ProcessingResponse{out}
	case "none":
	default:
		headers.HeaderMutation.SetHeaders = []*corev3.HeaderValueOption{setHeader(pickedEndpoint, endpoints)}
		if header.Get("x-pick-by") != "header" {
			lb, _ := structpb.NewValue(map[string]any{pickedEndpoint: endpoints})
			out.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"envoy.lb": lb}}
		}
	}
	out.Response = &ext_procv3.ProcessingResponse_RequestHeaders{RequestHeaders: &ext_procv3.HeadersResponse{Response: headers}}
	return []*ext_procv3.ProcessingResponse{out}
}

// served answers the headers of a response.
func (p picker) served(in *ext_procv3.ProcessingRequest) *ext_procv3.ProcessingResponse {
	by := in.GetMetadataContext().GetFilterMetadata()["envoy.lb"].GetFields()[pickedEndpoint+"-served"].GetStringValue()
	return &ext_procv3.ProcessingResponse{Response: &ext_procv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &ext_procv3.HeadersResponse{Response: &ext_procv3.CommonResponse{HeaderMutation: &ext_procv3.HeaderMutation{
			SetHeaders: []*corev3.HeaderValueOption{setHeader("x-picked-by", p.b.Name), setHeader("x-served", by)},
		}}},
	}}
}

func setHeader(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}

func headerOf(in *corev3.HeaderMap) http.Header {
	out := http.Header{}
	for _, h := range in.GetHeaders() {
		value := string(h.GetRawValue()) + h.GetValue()
		if strings.HasPrefix(h.GetKey(), ":") {
			out[h.GetKey()] = []string{value}
		} else {
			out.Set(h.GetKey(), value)
		}
	}
	return out
}

func requestBody(body []byte) *ext_procv3.ProcessingResponse {
	return &ext_procv3.ProcessingResponse{Response: &ext_procv3.ProcessingResponse_RequestBody{RequestBody: streamed(body, true)}}
}

// streamed hands a part of a body on as it is.
func streamed(body []byte, end bool) *ext_procv3.BodyResponse {
	return &ext_procv3.BodyResponse{Response: &ext_procv3.CommonResponse{BodyMutation: &ext_procv3.BodyMutation{
		Mutation: &ext_procv3.BodyMutation_StreamedResponse{
			StreamedResponse: &ext_procv3.StreamedBodyResponse{Body: body, EndOfStream: end},
		},
	}}}
}

// first returns a value by its name as it is: http.Header.Get would change that of a pseudo-header.
func first(h http.Header, name string) string {
	if all := h[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}
