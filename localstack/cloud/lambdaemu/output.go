package lambdaemu

import (
	"bufio"
	"io"
	"os"
	"time"
)

// maxLine is where longer lines of output are cut in two, in bytes.
const maxLine = 256 << 10

// outputPipes carry stdout and stderr of a process. They are pipes of our own,
// and not those of package exec, so that the end of a process is noticed even
// while a child of it holds them open.
type outputPipes struct {
	readers, writers []*os.File
}

func (p *process) connectOutput() (outputPipes, error) {
	var pipes outputPipes
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			pipes.closeWriters()
			return pipes, err
		}
		pipes.readers = append(pipes.readers, r)
		pipes.writers = append(pipes.writers, w)
	}
	p.cmd.Stdout, p.cmd.Stderr = pipes.writers[0], pipes.writers[1]
	return pipes, nil
}

// readOutput sends every line to the log sink until the pipes end.
func (p *process) readOutput(pipes outputPipes) {
	for _, r := range pipes.readers {
		p.output.Go(func() {
			lines := bufio.NewReaderSize(r, maxLine)
			for {
				line, _, err := lines.ReadLine()
				if err != nil {
					_, _ = io.Copy(io.Discard, lines)
					return
				}
				p.log(string(line))
			}
		})
	}
}

func (o outputPipes) closeWriters() { closeAll(o.writers) }
func (o outputPipes) closeReaders() { closeAll(o.readers) }

// hurry makes reads fail from then on. It is best effort: where pipes have no
// deadlines the readers wait for the last writer.
func (o outputPipes) hurry(d time.Duration) {
	for _, r := range o.readers {
		_ = r.SetReadDeadline(time.Now().Add(d))
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
