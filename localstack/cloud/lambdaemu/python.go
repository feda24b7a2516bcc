package lambdaemu

import (
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Python is a [Runtime] that runs a handler of a Python file with the python3
// of this machine. Nothing but the standard library is needed for that; what
// the handler imports must be installed.
type Python struct {
	// Handler is "module.function", as in Lambda. Required.
	Handler string

	// Dir holds the module. Defaults to the current directory.
	Dir string

	// Interpreter is the Python to use. Defaults to python3 on the PATH.
	Interpreter string
}

//go:embed bootstrap.py
var pythonBootstrap string

func (py Python) validate() error {
	module, function, _ := strings.Cut(py.Handler, ".")
	if module == "" || function == "" {
		return fmt.Errorf("Runtime is a Python with Handler %q: name it as module.function", py.Handler)
	}
	return nil
}

func (py Python) start(f *function, config Function) (instance, error) {
	interpreter := py.Interpreter
	if interpreter == "" {
		interpreter = "python3"
	}
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return nil, fmt.Errorf("no Python to run %s with: %w", py.Handler, err)
	}
	dir, err := filepath.Abs(py.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory %s cannot be found: %w", py.Dir, err)
	}
	cmd := exec.Command(path, "-u", "-B", "-c", pythonBootstrap) //nolint:noctx // as in Process
	cmd.Dir = dir
	return startProcess(f, config, cmd, py.Handler)
}
