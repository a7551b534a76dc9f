package mcpxds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/mcp/resource"
	"fairway/internal/source/platform"
)

// bounded is a state with the problems that it reported.
type bounded struct {
	*state
	kind *kind
	told map[string][]mesh.Problem
}

func newBounded(t *testing.T, o Options) *bounded {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{told: map[string][]mesh.Problem{}}
	b.state = newState(resource.NewReader(decoder, "xds://other"), o, new(platform.Outbox))
	b.kind = b.of(entryType)
	b.out.Start(t.Context(), b, nil)
	return b
}

// Apply implements source.Sink.
func (b *bounded) Apply(u source.Update) {
	for at, list := range u.Problems {
		if b.told[at] = list; len(list) == 0 {
			delete(b.told, at)
		}
	}
}

func (b *bounded) answer(a *answer) {
	a.typ = entryType
	shards, problems, _ := b.take(b.kind, a)
	b.out.Put(time.Now(), shards, problems)
}

func (b *bounded) says(at string) string {
	for _, p := range b.told[at] {
		return p.String()
	}
	return ""
}

// Objects that are left out are reported with their numbers, and asked for again once there is room, but not again and
// again.
func TestLeftOutComesBack(t *testing.T) {
	b := newBounded(t, Options{MaxObjects: 8})
	add := func(i int) item {
		return item{name: fmt.Sprint("shop/e", i), any: packed(t, fmt.Sprint("shop/e", i), fmt.Sprintf("e%d.example.com", i))}
	}
	for i := range 10 {
		b.answer(&answer{resources: []item{add(i)}})
	}
	if text := b.says("budget"); b.objects != 8 || !strings.Contains(text, "8 of at most 8 things") || !strings.Contains(text, "2 so far") {
		t.Errorf("%d objects, and the problem %q", b.objects, text)
	}
	now := time.Now()
	if b.room(now) {
		t.Error("there is room before anything went")
	}
	b.answer(&answer{removed: []string{"shop/e0", "shop/e1"}})
	if !b.room(now) || b.room(now) {
		t.Error("it is not asked for again once")
	}
	b.begin()
	b.answer(&answer{resources: []item{add(8), add(9)}})
	if len(b.told) > 0 || b.objects != 8 || b.account.Used().Things != 8 {
		t.Errorf("%d objects, %+v charged, and the problems %v", b.objects, b.account.Used(), b.told)
	}
	b.answer(&answer{whole: true})
	if used := b.account.Used(); used.Things != 0 || used.Bytes != 0 || used.Ports != 0 || len(b.told) > 0 {
		t.Errorf("all are gone, and %+v is charged", used)
	}
}

// Refused names are counted beyond a bound, whatever they are refused for, and nothing of them is charged.
func TestRefusedNamesAreCounted(t *testing.T) {
	b := newBounded(t, Options{MaxObjects: 100_000})
	nothing := &anypb.Any{TypeUrl: "x"}
	var first answer
	for i := range 3000 {
		first.resources = append(first.resources, item{name: fmt.Sprint("shop/bad", i), any: nothing})
	}
	b.answer(&first)
	if !strings.Contains(b.says("refusals"), "; 2000 more") || len(b.told) != 1001 || b.account.Used().Things != 0 {
		t.Errorf("%d places have problems, of others it says %q, %+v is charged", len(b.told), b.says("refusals"), b.account.Used())
	}
	b.begin()
	b.answer(&answer{whole: true})
	if len(b.told) != 0 {
		t.Errorf("all are gone, and %d places have problems: %v", len(b.told), b.told)
	}
}
