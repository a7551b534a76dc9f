package amend

import (
	"math/rand/v2"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	_ "fairway/internal/envoy/known"
)

// clusterValues are values of patches that overlap in every way: scalars, wrappers, durations, messages, lists, maps, members of one
// oneof, values of a Struct of several kinds, and messages packed in an Any.
var clusterValues = []string{
	`{"connect_timeout": "1s"}`,
	`{"connect_timeout": "2.5s", "per_connection_buffer_limit_bytes": 9}`,
	`{"per_connection_buffer_limit_bytes": 7}`,
	`{"alt_stat_name": "a"}`,
	`{"metadata": {"filter_metadata": {"k": {"v": 1}}}}`,
	`{"metadata": {"filter_metadata": {"k": {"v": {"x": 1}}}}}`,
	`{"metadata": {"filter_metadata": {"k": {"v": {"y": 2}}}}}`,
	`{"metadata": {"filter_metadata": {"k": {"v": [1]}}}}`,
	`{"metadata": {"filter_metadata": {"k": {"v": [2, 3]}, "other": {"w": "z"}}}}`,
	`{"dns_resolvers": [{"socket_address": {"address": "1.1.1.1", "port_value": 53}}]}`,
	`{"dns_resolvers": [{"socket_address": {"address": "2.2.2.2", "port_value": 53}}]}`,
	`{"round_robin_lb_config": {"slow_start_config": {"slow_start_window": "1s"}}}`,
	`{"round_robin_lb_config": {"slow_start_config": {"aggression": {"default_value": 1, "runtime_key": "r"}}}}`,
	`{"least_request_lb_config": {"choice_count": 3}}`,
	`{"circuit_breakers": {"thresholds": [{"max_connections": 1}]}}`,
	`{"upstream_connection_options": {"tcp_keepalive": {"keepalive_probes": 1}}}`,
	`{"upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 4}}}`,
	`{"transport_socket": {"name": "raw", "typed_config": {` +
		`"@type": "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"}}}`,
	`{"transport_socket": {"name": "tls", "typed_config": {` +
		`"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", "sni": "a"}}}`,
	`{"transport_socket": {"typed_config": {` +
		`"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", "allow_renegotiation": true}}}`,
}

func clusterPatch(t *testing.T, value string) *Patch {
	t.Helper()
	s := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(value), s); err != nil {
		t.Fatal(err)
	}
	p, field, err := Read(&networking.EnvoyFilter_EnvoyConfigObjectPatch{
		ApplyTo: networking.EnvoyFilter_CLUSTER,
		Patch:   &networking.EnvoyFilter_Patch{Operation: networking.EnvoyFilter_Patch_MERGE, Value: s},
	})
	if err != nil {
		t.Fatal(value, field, err)
	}
	return p
}

// TestJointIsOneAfterTheOther: joined patches change a cluster in the same way as patches applied one after the other.
func TestJointIsOneAfterTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []*Patch
	for _, v := range clusterValues {
		all = append(all, clusterPatch(t, v))
	}
	joined := 0
	for range 5000 {
		base := &clusterv3.Cluster{Name: "c"}
		open := &Open{}
		for range random.IntN(4) {
			if _, err := all[random.IntN(len(all))].ChangeCluster(open, base); err != nil {
				t.Fatal(err)
			}
		}
		open.Pack()
		one, together := proto.CloneOf(base), proto.CloneOf(base)
		openOne, openTogether := &Open{}, &Open{}
		var j *Joint
		var said []int
		flush := func(last bool) {
			if j == nil {
				return
			}
			if err := j.Change(openTogether, together, last); err != nil {
				t.Fatal(err)
			}
			j = nil
		}
		n := 1 + random.IntN(6)
		for range n {
			at := random.IntN(len(all))
			said = append(said, at)
			if _, err := all[at].ChangeCluster(openOne, one); err != nil {
				t.Fatal(err)
			}
			if j != nil && j.Add(all[at]) {
				joined++
				continue
			}
			flush(false)
			j = NewJoint(all[at])
		}
		flush(true)
		openOne.Pack()
		openTogether.Pack()
		if !proto.Equal(one, together) {
			t.Fatalf("patches %v of\n%s\nmake, one after the other,\n%s\nand joined\n%s", said, prototext.Format(base),
				prototext.Format(one), prototext.Format(together))
		}
	}
	if joined < 1000 {
		t.Errorf("only %d patches were joined to others", joined)
	}
}
