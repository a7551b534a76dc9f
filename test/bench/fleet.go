package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	encoded "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"fairway/test/ads"
)

// fleet is thousands of proxies, each with a real stream. They come back with what one real client of their namespace was sent, and
// remember nothing: they only acknowledge, and note when virtual hosts come.
type fleet struct {
	conns  []*grpc.ClientConn
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	arrived []time.Time // when clients were sent virtual hosts, since expect
	wanted  int
	all     chan struct{} // closed once as many as are wanted have come
	err     error         // of the first stream that ended by itself
	closed  bool
}

// ofConnection is how many streams share a connection.
const ofConnection = 100

// startFleet opens n streams to a server. first returns what a client sends first: its node as a part of a request, and requests.
func startFleet(addr string, n int, first func(i int) (node []byte, requests [][]byte)) (*fleet, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fleet{cancel: cancel, all: make(chan struct{})}
	for i := range n {
		if i%ofConnection == 0 {
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
			if err != nil {
				return f, err
			}
			f.conns = append(f.conns, conn)
		}
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		method := discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
		s, err := f.conns[len(f.conns)-1].NewStream(ctx, desc, method, grpc.WaitForReady(true))
		if err != nil {
			return f, fmt.Errorf("stream %d: %w", i, err)
		}
		node, requests := first(i)
		for at, r := range requests {
			parts := mem.BufferSlice{mem.SliceBuffer(r)}
			if at == 0 {
				parts = mem.BufferSlice{mem.SliceBuffer(node), mem.SliceBuffer(r)}
			}
			if err := s.SendMsg(parts); err != nil {
				return f, fmt.Errorf("stream %d: %w", i, err)
			}
		}
		f.ended.Add(1)
		go f.serve(i, s)
	}
	return f, nil
}

// serve acknowledges all that a client is sent.
func (f *fleet) serve(i int, s grpc.ClientStream) {
	defer f.ended.Done()
	for {
		var response []byte
		err := s.RecvMsg(&response)
		if err == nil {
			typ, nonce := header(response)
			var ack []byte
			ack, err = proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResponseNonce: nonce})
			if err == nil {
				err = s.SendMsg(mem.BufferSlice{mem.SliceBuffer(ack)})
			}
			if typ == ads.VirtualHostType {
				f.note()
			}
		}
		if err != nil {
			f.fail(fmt.Errorf("client %d: %w", i, err))
			return
		}
	}
}

func (f *fleet) note() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived = append(f.arrived, time.Now())
	if len(f.arrived) == f.wanted {
		close(f.all)
	}
}

func (f *fleet) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.err == nil {
		f.err = err
	}
}

// expect begins to wait for virtual hosts at n clients.
func (f *fleet) expect(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived, f.wanted, f.all = f.arrived[:0], n, make(chan struct{})
}

// await waits until they have come, and returns when: the first, the middle one and the last.
func (f *fleet) await(ctx context.Context) (first, middle, last time.Time, err error) {
	f.mu.Lock()
	all := f.all
	f.mu.Unlock()
	select {
	case <-all:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		return first, middle, last, errors.Join(fmt.Errorf("%d of %d clients were sent it: %w", len(f.arrived), f.wanted, err), f.err)
	}
	times := slices.SortedFunc(slices.Values(f.arrived), time.Time.Compare)
	return times[0], times[len(times)/2], times[len(times)-1], f.err
}

// stop ends the streams.
func (f *fleet) stop() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.ended.Wait()
	for _, c := range f.conns {
		_ = c.Close()
	}
}

// returning returns the requests of a client that comes back with what another one holds, without the node.
func returning(c *ads.Client) (out [][]byte, err error) {
	versions := c.Versions()
	for _, typ := range ads.Types {
		held := versions[typ]
		if len(held) == 0 {
			continue
		}
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, InitialResourceVersions: held}
		switch typ {
		case ads.ClusterType, ads.ListenerType, ads.VirtualHostType: // by wildcard
		default:
			r.ResourceNamesSubscribe = c.Names(typ)
		}
		text, err := proto.Marshal(r)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// encodedNode returns a request that has a node alone.
func encodedNode(n *corev3.Node) ([]byte, error) {
	return proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: n})
}

// header reads type and nonce of a response, without its resources.
func header(response []byte) (typ, nonce string) {
	for len(response) > 0 {
		number, kind, n := protowire.ConsumeTag(response)
		if n < 0 {
			return typ, nonce
		}
		response = response[n:]
		if n = protowire.ConsumeFieldValue(number, kind, response); n < 0 {
			return typ, nonce
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(response)
			switch number {
			case typeField:
				typ = string(value)
			case nonceField:
				nonce = string(value)
			}
		}
		response = response[n:]
	}
	return typ, nonce
}

// Fields of a DeltaDiscoveryResponse.
const (
	typeField  = 4
	nonceField = 5
)

// rawCodec passes encoded messages through.
type rawCodec struct{}

// Marshal is an encoding.CodecV2's.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) { return v.(mem.BufferSlice), nil }

// Unmarshal is an encoding.CodecV2's.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is an encoding.CodecV2's.
func (rawCodec) Name() string { return encoded.Name }
