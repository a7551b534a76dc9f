package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth"
	"fairway/internal/identity/ca"
	"fairway/internal/printable"
)

// Pages that tell more.
const (
	planesPage       = "docs/operate/check.md#control-planes"
	sourcesPage      = "docs/operate/check.md#sources"
	problemsPage     = "docs/problems.md"
	certificatesPage = "docs/identity.md"
	proxiesPage      = "docs/operate/troubleshooting.md"
	upgradePage      = "docs/operate/upgrade.md"
)

// source is one of /debug/sourcez.
type source struct {
	Source  string    `json:"source"`
	Phase   string    `json:"phase"`
	Since   time.Time `json:"since"`
	Detail  string    `json:"detail"`
	LeftOut uint64    `json:"leftOut"`
}

// ofPlanes checks the control planes, and what they know.
func ofPlanes(ctx context.Context, s Session, version string) (all []Result) {
	r := &results{part: "control planes", page: planesPage}
	planes, err := s.Planes(ctx)
	if err != nil {
		r.unknown("reach them", err, "start pilot-discovery, or name it with --address or --context")
	}
	versions := map[string][]string{}
	var answering []truth.Plane
	for _, p := range planes {
		clock := s.Clocked(p)
		var v page.Version
		if err := fetch(ctx, p, "/version", &v); err != nil {
			r.unknown(p.Called(), err, "start it, or look into its log")
			continue
		}
		r.ok(p.Called(), "it answers, version %s", v.Version)
		versions[v.Version] = append(versions[v.Version], p.Called())
		answering = append(answering, p)
		ready(ctx, r, p)
		r.clock(p.Called(), clock)
	}
	skew(r, versions, version)
	all = r.all
	for _, p := range answering {
		suffix := ""
		if len(answering) > 1 {
			suffix = " of " + p.Called()
		}
		all = slices.Concat(all, sources(ctx, p, suffix), problems(ctx, p, suffix), authority(ctx, p, suffix))
	}
	return append(all, proxies(ctx, answering)...)
}

// fetch reads a page within the time for one question.
func fetch(ctx context.Context, p truth.Plane, path string, into any) error {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	return p.Fetch(ctx, path, nil, into)
}

func ready(ctx context.Context, r *results, p truth.Plane) {
	ctx, stop := context.WithTimeout(ctx, each)
	defer stop()
	_, err := p.Get(ctx, "/ready", nil)
	var answer *truth.AnswerError
	switch {
	case err == nil:
		r.ok(p.Called()+" is ready", "")
	case errors.As(err, &answer):
		r.add(Failed, p.Called()+" is ready", answer.Text,
			"wait until its sources are read, or mend the one that it names (pilotctl x internal-debug sourcez)")
	default:
		r.unknown(p.Called()+" is ready", err, "look into its log")
	}
}

// skew judges the versions of control planes. Releases that follow each other work together.
func skew(r *results, versions map[string][]string, own string) {
	names := slices.Sorted(maps.Keys(versions))
	switch {
	case len(names) == 0:
		return
	case len(names) > 1:
		state, text := Warning, "an upgrade is under way: "
		for _, n := range names[1:] {
			if !neighbours(names[0], n) {
				state, text = Failed, "more than one release apart: "
			}
		}
		var parts []string
		for _, n := range names {
			parts = append(parts, n+" ("+strings.Join(versions[n], ", ")+")")
		}
		r.page = upgradePage
		r.add(state, "versions", text+strings.Join(parts, ", "),
			"finish the upgrade, or go back: all control planes of a revision should be of one version")
		r.page = planesPage
	default:
		r.ok("versions", "all are %s", names[0])
	}
	for _, n := range names {
		if !neighbours(n, own) {
			r.page = upgradePage
			r.add(Warning, "pilotctl", "it is "+own+", and a control plane is "+n, "use the pilotctl of the control plane's release")
			r.page = planesPage
			return
		}
	}
}

// neighbours reports whether two versions are of one release or of releases that follow each other. Versions that are not numbers are.
func neighbours(a, b string) bool {
	x, okX := minor(a)
	y, okY := minor(b)
	return !okX || !okY || x[0] == y[0] && max(x[1], y[1])-min(x[1], y[1]) <= 1
}

// minor returns the first two numbers of a version.
func minor(version string) (out [2]int, ok bool) {
	first, rest, has := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	second, _, _ := strings.Cut(rest, ".")
	second, _, _ = strings.Cut(second, "-")
	var errs [2]error
	out[0], errs[0] = strconv.Atoi(first)
	out[1], errs[1] = strconv.Atoi(second)
	return out, has && errs[0] == nil && errs[1] == nil
}

// sources judges how far each source of a control plane is.
func sources(ctx context.Context, p truth.Plane, suffix string) []Result {
	r := &results{part: "sources" + suffix, page: sourcesPage}
	var all []source
	if err := fetch(ctx, p, "/debug/sourcez", &all); err != nil {
		r.notShown("sources", err)
		return r.all
	}
	if len(all) == 0 {
		r.add(Warning, "sources", "there is none", "name one: --configDir, --registries or --kubeconfig of pilot-discovery")
	}
	for _, x := range all {
		since := " since " + stamp(x.Since)
		why := ""
		if x.Detail != "" {
			why = ": " + x.Detail
		}
		switch x.Phase {
		case "synced":
			if x.LeftOut > 0 {
				left := output.Plural(int(min(x.LeftOut, math.MaxInt32)), "thing")
				r.add(Warning, x.Source, "up to date"+since+", and "+left+" left out",
					"pilotctl problems names what is too large or too many")
				continue
			}
			r.ok(x.Source, "up to date%s", since)
		case "waiting":
			r.add(Warning, x.Source, "it is being read"+since+why, "wait; if it takes long, the log of the control plane says why")
		case "gone":
			r.add(Warning, x.Source, "it was taken away"+since+"; what it said stays"+why,
				"bring it back, or start the control plane without it")
		default: // late, stale
			r.add(Failed, x.Source, x.Phase+since+why,
				"bring its server back, or correct its address and credentials; until then what it said last is in force")
		}
	}
	return r.all
}

// notShown notes that a page did not come: the caller may not see it, or the control plane did not answer.
func (r *results) notShown(check string, err error) {
	r.unknown(check, err, "ask from the control plane's own machine, or with a certificate or token of its namespace")
}

// problems counts the problems in objects.
func problems(ctx context.Context, p truth.Plane, suffix string) []Result {
	r := &results{part: "rules" + suffix, page: problemsPage}
	var all []page.ProblemInfo
	if err := fetch(ctx, p, "/debug/problems", &all); err != nil {
		r.notShown("problems", err)
		return r.all
	}
	n, first := map[string]int{}, map[string]page.ProblemInfo{}
	for _, x := range all {
		if n[x.Severity]++; n[x.Severity] == 1 {
			first[x.Severity] = x
		}
	}
	for _, of := range []struct{ severity, state string }{{"error", Failed}, {"warning", Warning}} {
		if n[of.severity] > 0 {
			x := first[of.severity]
			object := x.Kind + " " + strings.TrimPrefix(x.Namespace+"/"+x.Name, "/")
			r.add(of.state, output.Plural(n[of.severity], of.severity), object+": "+x.Code+": "+x.Message, cmp.Or(x.Fix,
				"")+more(x.Fix, n[of.severity]))
		}
	}
	if n["error"]+n["warning"] == 0 {
		r.ok("problems", "none")
	}
	return r.all
}

// more names the verb that lists all problems.
func more(fix string, n int) string {
	switch {
	case fix == "":
		return "pilotctl problems lists them"
	case n > 1:
		return "; pilotctl problems lists the others"
	}
	return ""
}

// soon is how long before its end a root is a warning.
const soon = 30 * 24 * time.Hour

// authority judges the certificate authority.
func authority(ctx context.Context, p truth.Plane, suffix string) []Result {
	r := &results{part: "certificates" + suffix, page: certificatesPage}
	var st ca.Status
	err := fetch(ctx, p, "/debug/caz", &st)
	var answer *truth.AnswerError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
		r.add(Unused, "certificate authority", "there is none: --secureGRPCAddr switches it on", "")
		return r.all
	case err != nil:
		r.notShown("certificate authority", err)
		return r.all
	}
	if st.Unknown != "" {
		r.add(Failed, "certificate authority", printable.Text(st.Unknown, printable.Long), "make the store of --state reachable")
		return r.all
	}
	now := time.Now()
	fix := "replace it: the authority does so by itself if its root is its own; a plugged-in one is replaced in its files"
	r.expires("the certificate that signs", st.Signs.NotBefore, st.Signs.NotAfter, now, fix)
	for _, c := range st.Roots {
		r.expires("root "+c.Subject+" "+c.Serial, c.NotBefore, c.NotAfter, now, fix)
	}
	for _, l := range st.Lists {
		if !l.NextUpdate.IsZero() && l.NextUpdate.Before(now) {
			r.add(Failed, "CRL of "+l.Issuer, "its next one was due at "+stamp(l.NextUpdate), "write a new CRL beside the certificates")
		}
	}
	return r.all
}

// expires judges the validity of a certificate. One with less than a fifth of its life left is late: it is renewed earlier.
func (r *results) expires(what string, from, until, now time.Time, fix string) {
	switch {
	case until.IsZero():
	case now.After(until):
		r.add(Failed, what, "it ended at "+stamp(until), fix)
	case now.Add(mostDrift).Before(from):
		r.add(Failed, what, "it is valid only from "+stamp(from)+" on", "compare the clocks: one of them is wrong")
	case until.Sub(now) < min(soon, until.Sub(from)/5):
		r.add(Warning, what, "it ends at "+stamp(until), fix)
	default:
		r.ok(what, "valid until %s", stamp(until))
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// proxies judges the connected proxies of all control planes.
func proxies(ctx context.Context, planes []truth.Plane) []Result {
	r := &results{part: "proxies", page: proxiesPage}
	var all []page.ProxySync
	var shown []page.ProxyCertificate
	asked := false
	for _, p := range planes {
		var some []page.ProxySync
		var certs []page.ProxyCertificate
		err := fetch(ctx, p, "/debug/syncz", &some)
		if err == nil {
			err = fetch(ctx, p, "/debug/certz", &certs)
		}
		if err != nil {
			r.notShown("proxies of "+p.Called(), err)
			continue
		}
		asked = true
		all, shown = append(all, some...), append(shown, certs...)
	}
	if !asked {
		return r.all
	}
	if len(all) == 0 {
		r.add(Warning, "connected", "no proxy is",
			"inject one (pilotctl check-inject), or start pilot-agent; docs/operate/troubleshooting.md says why one does not come")
		return r.all
	}
	r.ok("connected", "%s", output.Number(len(all), "proxy", "proxies"))
	acknowledged(r, all)
	agents(r, all)
	proofs(r, shown)
	return r.all
}

// acknowledged judges whether proxies have everything.
func acknowledged(r *results, all []page.ProxySync) {
	var refused, behind, diverged []string
	for _, p := range all {
		name := page.ShortName(p.ProxyID)
		switch {
		case len(p.Rejected) > 0:
			refused = append(refused, name)
		case len(p.Behind) > 0:
			behind = append(behind, name)
		}
		if p.Diverged > 0 {
			diverged = append(diverged, name)
		}
	}
	if len(refused) == 0 {
		r.ok("refused", "no proxy refuses anything")
	} else {
		r.add(Failed, "refused", some(refused)+" refuse resources",
			"pilotctl problems names the objects that these were made from; pilotctl proxy-status has the proxies' words")
	}
	if len(behind) == 0 {
		r.ok("synced", "every other proxy has acknowledged everything")
	} else {
		r.add(Warning, "synced", some(behind)+" have not acknowledged everything",
			"look again; if it stays, pilotctl proxy-status says what each lacks, and since when")
	}
	if len(diverged) > 0 {
		r.add(Warning, "audit", some(diverged)+" had been sent something else than the tables have; it was sent again",
			"report it, with pilotctl bug-report")
	}
}

// oldestAgent is the oldest minor version of Istio's agents that is expected to work.
const oldestAgent = 20

// agents judges the versions of agents.
func agents(r *results, all []page.ProxySync) {
	n, old := map[string]int{}, []string{}
	for _, p := range all {
		n[cmp.Or(p.IstioVersion, "unknown")]++
		if v, ok := minor(p.IstioVersion); ok && v[0] == 1 && v[1] < oldestAgent {
			old = append(old, page.ShortName(p.ProxyID))
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", v, n[v]))
	}
	if len(old) > 0 {
		r.add(Failed, "versions of agents", some(old)+" are older than Istio 1."+strconv.Itoa(oldestAgent),
			"restart these workloads, so that they are injected anew; docs/operate/support.md has what works")
		return
	}
	r.ok("versions of agents", "%s", some(parts))
}

// proofs judges the certificates that proxies showed.
func proofs(r *results, shown []page.ProxyCertificate) {
	var ended, plain []string
	for _, p := range shown {
		name := page.ShortName(p.ProxyID)
		switch {
		case p.By == "nothing":
			plain = append(plain, name)
		case p.Certificate != nil && !p.Certificate.Valid:
			ended = append(ended, name)
		}
	}
	if len(ended) > 0 {
		r.add(Failed, "certificates of proxies", some(ended)+" showed one that is no longer valid",
			"look into the agents' logs: they have not renewed it; compare the clocks of their machines")
	} else {
		r.ok("certificates of proxies", "all that were shown are valid")
	}
	if len(plain) > 0 {
		r.add(Warning, "proved identities", some(plain)+" are connected in plaintext, and prove nothing",
			"have agents connect to --secureGRPCAddr (15012)")
	}
}

// some lists the first of many names.
func some(names []string) string {
	const most = 5
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}
