package pack

import "testing"

func TestVersion(t *testing.T) {
	for git, want := range map[string]string{
		"0.1.0": "0.1.0", "0.2.0-rc.1": "0.2.0~rc.1", "0.2.0-rc-1": "0.2.0~rc.1", "0.1.0-5-g33b3bc1": "0.1.0+5.g33b3bc1",
		"0.1.0-5-g33b3bc1-dirty": "0.1.0+5.g33b3bc1.dirty", "0.2.0-rc.1-5-g33b3bc1": "0.2.0~rc.1+5.g33b3bc1", "0.1.0-dirty": "0.1.0~dirty",
	} {
		if got := Version(git); got != want {
			t.Errorf("%s becomes %s, want %s", git, got, want)
		}
	}
}
