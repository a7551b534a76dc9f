package truth

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"fairway/internal/admin/page"
	"fairway/internal/config"
)

// fakeSession is a control plane that has everything in force, in a cluster.
type fakeSession struct {
	generation int64
	err        error
	asked      []url.Values
}

func (s *fakeSession) Planes(context.Context) ([]Plane, error) { return []Plane{s}, nil }
func (s *fakeSession) Generation(context.Context, config.Key) (int64, error) {
	return s.generation, s.err
}
func (s *fakeSession) Format() string                               { return "table" }
func (s *fakeSession) Close()                                       {}
func (s *fakeSession) Called() string                               { return "istiod-1" }
func (s *fakeSession) Post(context.Context, string, any, any) error { panic("not asked") }

func (s *fakeSession) Change(context.Context, string, url.Values, any) error { panic("not asked") }

func (s *fakeSession) Get(context.Context, string, url.Values) ([]byte, error) {
	return nil, errors.New("not asked")
}
func (s *fakeSession) Fetch(_ context.Context, _ string, query url.Values, into any) error {
	s.asked = append(s.asked, query)
	*into.(*page.Live) = page.Live{State: page.LiveYes, Turn: 8412, Proxies: 3}
	return nil
}

// TestWaitAsksForTheNewest: an object that is named alone is waited for in the generation that the API server has.
func TestWaitAsksForTheNewest(t *testing.T) {
	for name, c := range map[string]struct {
		session fakeSession
		args    string
		want    string // generation in the question
		says    string
	}{
		"of the cluster":  {fakeSession{generation: 7}, "vs/shop/reviews", "7", "acknowledged by every proxy (3)"},
		"named":           {fakeSession{generation: 7}, "vs/shop/reviews --generation 6", "6", ""},
		"not there":       {fakeSession{}, "vs/shop/reviews", "", ""},
		"not to be known": {fakeSession{err: errors.New("forbidden")}, "vs/shop/reviews", "", "its generation is not known"},
		"a turn":          {fakeSession{generation: 7}, "--turn 8412", "", ""},
	} {
		cmd := wait(&c.session)
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(strings.Fields(c.args))
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v %s", name, err, out.String())
		}
		if got := c.session.asked[0].Get("generation"); got != c.want {
			t.Errorf("%s: it asks for generation %q, want %q", name, got, c.want)
		}
	}
}
