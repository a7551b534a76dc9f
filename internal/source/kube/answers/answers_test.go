package answers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeproto "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"

	"fairway/internal/reading"
	"fairway/internal/source/kube/rows"
)

// endless answers every request with a body that does not end.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(spaces{})}, nil
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, strings.Repeat(" ", len(p))), nil }

// One large answer is read at a time, until it is decoded; small ones, and the beginnings of others, are read beside it.
func TestOneLargeAnswerAtATime(t *testing.T) {
	c, lane := &rest.Config{}, reading.NewLane()
	bound(c, lane)
	client := c.WrapTransport(endless{})
	ask := func(ctx context.Context) io.ReadCloser {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kube/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Body
	}
	read := func(from io.Reader, most int64) {
		if n, err := io.Copy(io.Discard, io.LimitReader(from, most)); err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	ctx, turn := lane.With(t.Context())
	first := ask(ctx)
	read(first, 2*reading.SmallAnswer)
	first.Close()
	ctx, stop := context.WithCancel(t.Context())
	second, third := ask(ctx), ask(t.Context())
	read(second, reading.SmallAnswer)
	read(third, reading.SmallAnswer)
	stop()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("while a large answer is decoded another one is read on")
	}
	second.Close()
	turn.End()
	if n, err := io.Copy(io.Discard, third); err == nil || n > maxAnswer {
		t.Errorf("%d bytes more, and %v", n, err)
	}
	third.Close()
}

// pods is a list as an API server writes it.
func podList(t *testing.T, as string, pods ...corev1.Pod) []byte {
	t.Helper()
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods,
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"},
	}
	if as == "json" {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := kubeproto.NewSerializer(scheme, scheme).Encode(list, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A list is read object by object, as protobuf and as JSON, with its metadata.
func TestListsAreReadAsStreams(t *testing.T) {
	var pods []corev1.Pod
	for i := range 3 {
		pods = append(pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"},
		})
	}
	for _, as := range []string{"protobuf", "json"} {
		for _, all := range [][]corev1.Pod{pods, nil} {
			text := podList(t, as, all...)
			var got []string
			s := stream{
				from: bufio.NewReader(bytes.NewReader(text)), make: func() Item { return new(corev1.Pod) }, wary: true,
				each: func(o runtime.Object) error {
					p := o.(*corev1.Pod)
					got = append(got, p.Name+p.Labels["app"]+p.Spec.NodeName+p.Status.PodIP)
					return nil
				},
			}
			if err := s.read(); err != nil || s.meta.ResourceVersion != "7" || s.meta.Continue != "more" || len(got) != len(all) {
				t.Fatalf("%s: %v %+v %v", as, err, s.meta, got)
			}
			if len(all) > 0 && got[2] != "p2webn10.0.0.1" {
				t.Errorf("%s: %v", as, got)
			}
			for cut := range len(text) - 4 { // the envelope's last fields are empty

				s.from = bufio.NewReader(bytes.NewReader(text[:cut]))
				if err := s.read(); err == nil {
					t.Errorf("%s that ends after %d of %d bytes is read", as, cut, len(text))
				}
			}
		}
	}
}

// An object that is small on the wire and large once it is decoded is not decoded; nor is a list of another kind.
func TestBombsAreNotDecoded(t *testing.T) {
	bomb := corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, maxValues)}}
	for name, text := range map[string][]byte{
		"protobuf": podList(t, "protobuf", bomb), "json": podList(t, "json", bomb),
		"long": podList(t, "protobuf", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", maxItem)}}),
	} {
		s := stream{
			from: bufio.NewReader(bytes.NewReader(text)), make: func() Item { return new(corev1.Pod) }, wary: true,
			each: func(runtime.Object) error { t.Errorf("%s: it is decoded", name); return nil },
		}
		if err := s.read(); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	text := podList(t, "protobuf", corev1.Pod{})
	s := stream{
		from: bufio.NewReader(bytes.NewReader(text)), make: func() Item { return new(corev1.Node) },
		each: func(runtime.Object) error { return errors.New("it is decoded") },
	}
	if err := s.read(); err == nil || !strings.Contains(err.Error(), `"PodList", not a NodeList`) {
		t.Errorf("a list of Pods is read as one of Nodes: %v", err)
	}
}

// Lists of strangers: whatever comes, it is refused or read.
func FuzzLists(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}},null]}`))
	f.Add([]byte("k8s\x00\n\x0d\n\x02v1\x12\x07PodList\x12\x08\n\x03\x12\x017\x12\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := stream{
			from: bufio.NewReader(bytes.NewReader(text)), make: func() Item { return new(corev1.Pod) }, wary: true,
			each: func(o runtime.Object) error { rows.Cost(o); return nil },
		}
		_ = s.read()
	})
}
