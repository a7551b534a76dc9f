package xds

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// TestBenchFleet is the fleet's side of the benchmarks; alone it does nothing.
func TestBenchFleet(t *testing.T) {
	addr := os.Getenv("XDS_FLEET")
	if addr == "" {
		t.Skip("run by the benchmarks")
	}
	n, err := strconv.Atoi(os.Getenv("XDS_CLIENTS"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{addr: addr, n: n}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		got, err := f.connect(orders.Text() == "again")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("fleet: %d resources\n", got)
	}
	f.hangUp()
}

// fleet is many clients that know just enough to ask, count and ACK.
type fleet struct {
	addr  string
	n     int
	conns []*grpc.ClientConn
}

func (f *fleet) hangUp() {
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// rawCodec passes encoded messages through.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return proto.Name }

// connect opens a stream for each client, anew, and returns how many resources they were sent in all.
func (f *fleet) connect(again bool) (int, error) {
	f.hangUp()
	var g errgroup.Group
	counts := make([]int, f.n)
	for i := range f.n {
		conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(1<<30)))
		if err != nil {
			return 0, err
		}
		f.conns = append(f.conns, conn)
		g.Go(func() (err error) {
			counts[i], err = f.client(conn, "p"+strconv.Itoa(i), again)
			return err
		})
	}
	err := g.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return total, err
}

// client runs one stream until it has everything, and leaves it open with every response ACKed.
func (f *fleet) client(conn *grpc.ClientConn, node string, again bool) (int, error) {
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(context.Background(), desc, "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	if err != nil {
		return 0, err
	}
	for _, r := range firstRequests(node, again) {
		if err := s.SendMsg(r); err != nil {
			return 0, err
		}
	}
	count := 0
	for !again && count < xdstest.MeshResources+1 {
		n, err := takeRaw(s)
		if err != nil {
			return count, err
		}
		count += n
	}
	surplus := make(chan int, 1)
	go func() {
		defer close(surplus)
		for {
			n, err := takeRaw(s)
			if err != nil {
				return
			}
			if n > 0 && again {
				surplus <- n
			}
		}
	}()
	select {
	case n := <-surplus:
		return n, nil
	default:
		return count, nil
	}
}

func firstRequests(node string, again bool) (out [][]byte) {
	var eds []string
	for i := range xdstest.MeshClusters {
		eds = append(eds, xdstest.MeshCluster(i))
	}
	names := map[string][]string{xdstype.EndpointURL: eds, xdstype.RouteURL: {"80"}}
	mesh := xdstest.Mesh()
	for i, typ := range allTypes {
		var b []byte
		if i == 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), appendText(nil, 1, node))
		}
		b = appendText(b, 2, typ)
		for _, n := range names[typ] {
			b = appendText(b, 3, n)
		}
		for _, c := range mesh {
			if again && c.Type == typ {
				pair := appendText(appendText(nil, 1, c.Name), 2, library.FormatVersion(c.Resource.Version()))
				b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), pair)
			}
		}
		out = append(out, b)
	}
	return out
}

// takeRaw receives one response, ACKs it, and returns how many resources it held.
func takeRaw(s grpc.ClientStream) (count int, err error) {
	var raw []byte
	if err := s.RecvMsg(&raw); err != nil {
		return 0, err
	}
	var typ, nonce string
	for len(raw) > 0 {
		num, _, n := protowire.ConsumeTag(raw) // all fields are length-delimited
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		value, m := protowire.ConsumeString(raw[n:])
		if m < 0 {
			return 0, protowire.ParseError(m)
		}
		switch raw = raw[n+m:]; num {
		case 2: // resources
			count++
		case 4: // type_url
			typ = value
		case 5: // nonce
			nonce = value
		}
	}
	return count, s.SendMsg(appendText(appendText(nil, 2, typ), 6, nonce))
}

func appendText(b []byte, num protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), value)
}
