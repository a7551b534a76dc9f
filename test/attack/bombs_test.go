package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/test/rig"
)

// bombOf is a hostile file: its text is other each time that it is written, and costs a second or so to read, or a
// third of one where it is small.
func bombOf(i, version int) string {
	switch i % 4 {
	case 0: // small, of thousands of documents
		return fmt.Sprintf("kind: List\nitems: [{v: %d}, ", version) + strings.Repeat("{a: b}, ", 3900) + "{a: c}]\n"
	case 1:
		return fmt.Sprintf("v: %d\n", version) + aliasBomb(3<<20)
	case 2:
		return fmt.Sprintf(`{"v":%d,"spec":[`, version) + strings.TrimSuffix(strings.Repeat("{},", 400_000), ",") + "]}"
	}
	return fmt.Sprintf("v: %d\n---\n", version) + strings.Repeat("a\n---\n", 20_000)
}

// rewriting writes so many bombs over and over, until the test stops it.
func (p *filesPlane) rewriting(t *testing.T, bombs int) (stop func()) {
	var all sync.WaitGroup
	end := make(chan struct{})
	beside := rig.Folder(t)
	for i := range bombs {
		all.Go(func() {
			for version := 0; ; version++ {
				tmp := filepath.Join(beside, fmt.Sprint(i))
				if os.WriteFile(tmp, []byte(bombOf(i, version)), 0o644) != nil ||
					os.Rename(tmp, filepath.Join(p.dir, fmt.Sprintf("bomb%d.yaml", i))) != nil {
					return
				}
				select {
				case <-end:
					return
				case <-time.After(50 * time.Millisecond): // pause: the attacker's own work is not measured
				}
			}
		})
	}
	return func() { close(end); all.Wait() }
}

// TestEditsBesideBombs: however many hostile files are written over and over, an edit of another file, small or large,
// is in force as soon as without them.
func TestEditsBesideBombs(t *testing.T) {
	var alone time.Duration
	for _, bombs := range []int{0, 1, 3, 10} {
		t.Run(fmt.Sprintf("%d bombs", bombs), func(t *testing.T) {
			p := startFiles(t, func(string) {})
			stop := p.rewriting(t, bombs)
			defer stop()
			if bombs > 0 {
				p.says(t, "bomb0.yaml")
			}
			var took []time.Duration
			for v := 1; v <= 20; v++ {
				name, comment := "small", ""
				if v%2 == 0 {
					name, comment = "large", "# "+strings.Repeat("x", 40<<10)+"\n"
				}
				from := time.Now()
				p.put(t, name+".yaml", fmt.Sprintf(
					"apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s, namespace: "+
						"shop}\nspec:\n  %s  address: 10.9.9.%d\n",
					name,
					comment,
					v,
				))
				rig.Eventually(t, func() error {
					if text := p.page(t, "/debug/configz?kind=WorkloadEntry"); !strings.Contains(text, fmt.Sprintf(`"10.9.9.%d"`, v)) {
						return fmt.Errorf("version %d is not in force", v)
					}
					return nil
				})
				took = append(took, time.Since(from))
			}
			t.Logf("edits: %v", took)
			slices.Sort(took)
			median, worst := took[len(took)/2], took[len(took)-1]
			t.Logf("an edit is in force after %v, at worst %v", median, worst)
			if bombs == 0 {
				alone = worst
			} else if worst > 10*alone+2*time.Second {
				t.Errorf("an edit took %v beside %d bombs, %v alone", worst, bombs, alone)
			}
		})
	}
}
