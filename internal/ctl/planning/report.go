package planning

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth"
	"fairway/internal/snapshot"
)

// pages are the pages of a control plane that an archive has, and the names of their files.
var pages = []struct {
	path, name string
	query      url.Values
}{
	{"/debug/snapshotz", snapshot.FileName, nil},
	{"/version", "version.json", nil},
	{"/ready", "ready.txt", nil},
	{"/metrics", "metrics.txt", nil},
	{"/debug/logz", "log.txt", nil},
	{"/debug/syncz", "syncz.json", nil},
	{"/debug/problems", "problems.json", nil},
	{"/debug/historyz", "historyz.json", url.Values{"most": {"1000"}}},
	{"/debug/sourcez", "sourcez.json", nil},
	{"/debug/clusterz", "clusterz.json", nil},
	{"/debug/workloadz", "workloadz.json", nil},
	{"/debug/writez", "writez.json", nil},
	{"/debug/certz", "certz.json", nil},
	{"/debug/caz", "caz.json", nil},
	{"/debug/jwksz", "jwksz.json", nil},
	{"/debug/tablez", "tablez.txt", nil},
	{"/debug/pprof/goroutine", "goroutines.txt", url.Values{"debug": {"2"}}},
	{"/debug/pprof/heap", "heap.pb.gz", nil},
}

// mostDumps is how many proxies of a control plane an archive has the resources of: those that lack something first.
const mostDumps = 50

// report writes an archive.
func report(s Session) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use:   "bug-report",
		Short: "Put the input and the state of all control planes into an archive, without secrets",
		Long: "Writes an archive (.tar.gz) with a folder for each control plane: its snapshot, version, metrics, the last lines of its " +
			"log, its last turns, problems, stacks, and the resources that proxies hold. Secrets are left out. pilot-discovery replay " +
			"serves from it what the control plane served, and pilotctl plan --on plans on top of it.\n\n" +
			"It ends with 0 if the archive has everything, and with 2 if something could not be read: missing.txt says what.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer s.Close()
			if name == "" {
				name = "fairway-report-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			missing, err := writeReport(cmd.Context(), s, name)
			if err != nil {
				return output.CannotSay(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", name)
			if len(missing) > 0 {
				return output.CannotSay(fmt.Errorf("the archive lacks something: %s", strings.Join(missing, "; ")))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&name, "filename", "f", "", "file to write (default: fairway-report-TIME.tar.gz)")
	return cmd
}

// writeReport writes the archive, and returns what could not be read.
func writeReport(ctx context.Context, s Session, name string) (missing []string, err error) {
	planes, unreached := s.Planes(ctx)
	if len(planes) == 0 {
		return nil, unreached
	}
	if unreached != nil {
		missing = append(missing, unreached.Error())
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	packed := gzip.NewWriter(f)
	a := archive{tar.NewWriter(packed), time.Now()}
	for i, p := range planes {
		lacks, err := a.plane(ctx, fmt.Sprintf("%d-%s", i, fileName(p.Called())), p)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		missing = append(missing, lacks...)
	}
	err = a.add("missing.txt", []byte(strings.Join(missing, "\n")))
	return missing, errors.Join(err, a.to.Close(), packed.Close(), f.Close())
}

// archive is an archive that is being written.
type archive struct {
	to *tar.Writer
	at time.Time
}

func (a archive) add(name string, content []byte) error {
	err := a.to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: a.at})
	if err == nil {
		_, err = a.to.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// plane adds a control plane's pages, and returns which could not be read. A page that does not exist there is not missing.
func (a archive) plane(ctx context.Context, folder string, p truth.Plane) (missing []string, err error) {
	for _, page := range pages {
		content, err := p.Get(ctx, page.path, page.query)
		if err != nil {
			if !strings.Contains(err.Error(), "there is no page") {
				missing = append(missing, fmt.Sprintf("%s of %s: %v", page.path, p.Called(), err))
			}
			continue
		}
		if err := a.add(path.Join(folder, page.name), content); err != nil {
			return nil, err
		}
	}
	return missing, a.dumps(ctx, folder, p)
}

// dumps adds the resources of some proxies.
func (a archive) dumps(ctx context.Context, folder string, p truth.Plane) error {
	var streams []page.ProxySync
	if err := p.Fetch(ctx, "/debug/syncz", nil, &streams); err != nil {
		return nil //nolint:nilerr // the page is among the missing ones already
	}
	behind, rest := []string{}, []string{}
	for _, s := range streams {
		if len(s.Behind) > 0 || len(s.Rejected) > 0 {
			behind = append(behind, page.Key(s.ProxyID, s.Identity))
		} else {
			rest = append(rest, page.Key(s.ProxyID, s.Identity))
		}
	}
	for i, id := range append(behind, rest...) {
		if i == mostDumps {
			break
		}
		dump, err := p.Get(ctx, "/debug/config_dump", url.Values{"proxyID": {id}})
		if err != nil {
			continue // it left
		}
		if !json.Valid(dump) {
			continue
		}
		if err := a.add(path.Join(folder, "proxies", fileName(page.ShortName(id))+".json"), dump); err != nil {
			return err
		}
	}
	return nil
}

// fileName makes a name fit for a file.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
}
