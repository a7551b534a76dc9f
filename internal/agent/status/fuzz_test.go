package status

import "testing"

// FuzzProbes: what an injector, or somebody in its place, writes about probes and metrics is taken or refused.
func FuzzProbes(f *testing.F) {
	for _, seed := range []string{
		`{"/app-health/a/livez":{"httpGet":{"path":"/x","port":80,"httpHeaders":[{"name":"a","value":"b"}]}}}`,
		`{"scrape":"true","port":"9","path":"/m"}`, `{"/app-health/a":{"grpc":{"port":"1"}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := NewProbes(text, "localhost"); err == nil {
			for _, one := range p.by {
				if one.HTTP == nil && one.TCP == nil && one.GRPC == nil {
					t.Fatal("a probe that asks nothing")
				}
			}
		}
		_, _ = AppPage(text, "localhost", 15020)
	})
}
