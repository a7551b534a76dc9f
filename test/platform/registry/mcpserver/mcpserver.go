// Package mcpserver is a source of the Mesh Configuration Protocol for tests, written from the protocol's definition alone
// (mcp/v1alpha1/mcp.proto of istio.io/api before 1.6): it describes the messages a second time, so that a wrong field of ours is found.
package mcpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "google.golang.org/genproto/googleapis/rpc/status" // registers google.rpc.Status
	mcp "istio.io/api/mcp/v1alpha1"
)

// field describes one field of a message.
func field(
	name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, many bool,
) *descriptorpb.FieldDescriptorProto {
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	if many {
		label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	}
	out := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label}
	if of != "" {
		out.TypeName = &of
	}
	return out
}

const (
	text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	boolean = descriptorpb.FieldDescriptorProto_TYPE_BOOL
	message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
)

// definition is the part of mcp.proto that a source speaks.
func definition() *descriptorpb.FileDescriptorProto {
	const pkg = ".istio.mcp.v1alpha1."
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("mcp/v1alpha1/mcp.proto"), Package: proto.String("istio.mcp.v1alpha1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/rpc/status.proto", "mcp/v1alpha1/resource.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("SinkNode"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1, text, "", false)}},
			{
				Name: proto.String("RequestResources"),
				Field: []*descriptorpb.FieldDescriptorProto{
					field("sink_node", 1, message, pkg+"SinkNode", false),
					field("collection", 2, text, "", false),
					field("initial_resource_versions", 3, message, pkg+"RequestResources.InitialResourceVersionsEntry", true),
					field("response_nonce", 4, text, "", false),
					field("error_detail", 5, message, ".google.rpc.Status", false),
					field("incremental", 6, boolean, "", false),
				},
				NestedType: []*descriptorpb.DescriptorProto{{
					Name:    proto.String("InitialResourceVersionsEntry"),
					Field:   []*descriptorpb.FieldDescriptorProto{field("key", 1, text, "", false), field("value", 2, text, "", false)},
					Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				}},
			},
			{Name: proto.String("Resources"), Field: []*descriptorpb.FieldDescriptorProto{
				field("system_version_info", 1, text, "", false),
				field("collection", 2, text, "", false),
				field("resources", 3, message, pkg+"Resource", true),
				field("removed_resources", 4, text, "", true),
				field("nonce", 5, text, "", false),
				field("incremental", 6, boolean, "", false),
			}},
		},
	}
}

// Request is a RequestResources.
type Request struct {
	Sink, Collection, Nonce, Error string
	Initial                        map[string]string
	Incremental                    bool
}

// Answer is a Resources.
type Answer struct {
	Collection, Nonce string
	Resources         []*mcp.Resource
	Removed           []string
	Incremental       bool
}

// Protocol makes and reads messages by the definition.
type Protocol struct {
	request, answer protoreflect.MessageDescriptor
}

// New returns the protocol.
func New(t testing.TB) Protocol {
	t.Helper()
	p, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func describe() (Protocol, error) {
	file, err := protodesc.NewFile(definition(), protoregistry.GlobalFiles)
	if err != nil {
		return Protocol{}, err
	}
	return Protocol{file.Messages().ByName("RequestResources"), file.Messages().ByName("Resources")}, nil
}

func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func set(m protoreflect.Message, name protoreflect.Name, v any) {
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
}

// Messages is a stream of gRPC's, as either end has it: in this protocol either may be the source.
type Messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// Receive reads a request off a source's stream.
func (p Protocol) Receive(s Messages) (Request, error) {
	m := dynamicpb.NewMessage(p.request)
	if err := s.RecvMsg(m); err != nil {
		return Request{}, err
	}
	out := Request{
		Collection: get(m, "collection").String(), Nonce: get(m, "response_nonce").String(), Incremental: get(m, "incremental").Bool(),
		Sink: get(get(m, "sink_node").Message(), "id").String(), Initial: map[string]string{},
	}
	get(m, "initial_resource_versions").Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		out.Initial[k.String()] = v.String()
		return true
	})
	if m.Has(p.request.Fields().ByName("error_detail")) {
		out.Error = get(get(m, "error_detail").Message(), "message").String()
	}
	return out, nil
}

// Ask sends a request on a sink's stream.
func (p Protocol) Ask(s grpc.ClientStream, r Request) error {
	m := dynamicpb.NewMessage(p.request)
	set(m, "collection", r.Collection)
	set(m, "response_nonce", r.Nonce)
	set(m, "incremental", r.Incremental)
	for k, v := range r.Initial {
		m.Mutable(p.request.Fields().ByName("initial_resource_versions")).Map().Set(
			protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
	}
	return s.SendMsg(m)
}

// Send sends an answer on a source's stream.
func (p Protocol) Send(s Messages, a Answer) error {
	m := dynamicpb.NewMessage(p.answer)
	set(m, "collection", a.Collection)
	set(m, "nonce", a.Nonce)
	set(m, "incremental", a.Incremental)
	list := m.Mutable(p.answer.Fields().ByName("resources")).List()
	for _, r := range a.Resources {
		body, err := proto.Marshal(r)
		if err != nil {
			return err
		}
		one := list.NewElement()
		if err := proto.Unmarshal(body, one.Message().Interface()); err != nil {
			return err
		}
		list.Append(one)
	}
	gone := m.Mutable(p.answer.Fields().ByName("removed_resources")).List()
	for _, name := range a.Removed {
		gone.Append(protoreflect.ValueOfString(name))
	}
	return s.SendMsg(m)
}

// Next reads an answer off a sink's stream.
func (p Protocol) Next(s grpc.ClientStream) (Answer, error) {
	m := dynamicpb.NewMessage(p.answer)
	if err := s.RecvMsg(m); err != nil {
		return Answer{}, err
	}
	out := Answer{Collection: get(m, "collection").String(), Nonce: get(m, "nonce").String(), Incremental: get(m, "incremental").Bool()}
	list := get(m, "resources").List()
	for i := range list.Len() {
		body, err := proto.Marshal(list.Get(i).Message().Interface())
		if err != nil {
			return Answer{}, err
		}
		r := &mcp.Resource{}
		if err := proto.Unmarshal(body, r); err != nil {
			return Answer{}, err
		}
		out.Resources = append(out.Resources, r)
	}
	gone := get(m, "removed_resources").List()
	for i := range gone.Len() {
		out.Removed = append(out.Removed, gone.Get(i).String())
	}
	return out, nil
}

// Serve has each stream of a sink served by serve, until the test ends. It returns the address.
func Serve(t testing.TB, serve func(grpc.ServerStream) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	register(g, serve)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

func register(g *grpc.Server, serve func(grpc.ServerStream) error) {
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "istio.mcp.v1alpha1.ResourceSource", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "EstablishResourceStream", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return serve(s) },
		}},
	}, struct{}{})
}

// Open opens a sink's stream at a source.
func Open(t testing.TB, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := open(t.Context(), conn, "ResourceSource")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Push opens a source's stream at a sink, until ctx ends. It begins with a message about no collection, as those of Istio 1.1 to 1.4 do.
func (p Protocol) Push(t testing.TB, ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := p.Pushing(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Pushing is Push; its error is why there is no stream. A stream that was refused says so when something is received.
func (p Protocol) Pushing(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	s, err := open(ctx, conn, "ResourceSink")
	if err != nil {
		return nil, err
	}
	if err := p.Send(s, Answer{}); err != nil && !errors.Is(err, io.EOF) { // the stream has its status then
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, conn *grpc.ClientConn, service string) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/istio.mcp.v1alpha1."+service+"/EstablishResourceStream")
}
