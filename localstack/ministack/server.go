package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server says how to start MiniStack.
type server struct {
	Python string // interpreter with MiniStack installed
	Log    string // file for its output
	Port   int    // wanted port
}

// instance is a running MiniStack.
type instance struct {
	cmd     *exec.Cmd
	port    int
	scratch string // everything it writes, removed with it
	cert    certificate
	log     *os.File
	ended   chan struct{} // closed once it is gone
	result  error         // how it ended, to be read after ended is closed
}

// start returns once MiniStack answers. What it has started and written is gone again when it fails.
func (s server) start(ctx context.Context) (_ *instance, err error) {
	if _, err := os.Stat(s.Python); err != nil {
		return nil, fmt.Errorf("no MiniStack at %s: run `make tools`, or name another interpreter with -python", s.Python)
	}
	i := &instance{ended: make(chan struct{})}
	if i.port, err = freePort(ctx, s.Port); err != nil {
		return nil, err
	}
	if i.scratch, err = os.MkdirTemp("", "sluice-ministack-"); err != nil {
		return nil, fmt.Errorf("making a folder for MiniStack: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.stop())
		}
	}()
	if i.cert, err = newCertificate(i.scratch); err != nil {
		return nil, err
	}
	if err = os.MkdirAll(filepath.Dir(s.Log), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the log: %w", err)
	}
	if i.log, err = os.Create(s.Log); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}

	if err = i.writeAdjustments(); err != nil {
		return nil, err
	}

	// Hypercorn directly, not the ministack command: under TLS that one also takes port 443 when it can,
	// and it shares a PID file with every other MiniStack on the port.
	i.cmd = exec.Command(s.Python, "-m", "hypercorn", "ministack.app:app", //nolint:noctx // stop ends it, not a context: it has to outlive the command
		"--config", i.file("hypercorn.toml"), "--bind", net.JoinHostPort("127.0.0.1", strconv.Itoa(i.port)),
		"--certfile", i.cert.CertFile, "--keyfile", i.cert.KeyFile, "--keep-alive", "75")
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	i.cmd.Env = append(i.environment(), i.settings()...)
	inOwnGroup(i.cmd)
	if err = i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting MiniStack: %w", err)
	}
	go func() {
		i.result = i.cmd.Wait()
		close(i.ended)
	}()

	if err = i.awaitAnswer(ctx); err != nil {
		return nil, fmt.Errorf("%w (its log is %s)", err, s.Log)
	}

	return i, nil
}

// adjustments are files that make MiniStack behave more like AWS.
var adjustments = map[string]string{
	// AWS speaks HTTP/1.1 to SDKs. Hypercorn would offer HTTP/2 as well, and breaks a connection off after
	// a thousand requests.
	"hypercorn.toml": "alpn_protocols = [\"http/1.1\"]\n",

	// DynamoDB calculates with 38 digits, Python with 28 unless told otherwise. The interpreter reads
	// this file when it starts.
	"sitecustomize.py": "import decimal\n\ndecimal.DefaultContext.prec = 38\n",
}

func (i *instance) file(name string) string { return filepath.Join(i.scratch, name) }

func (i *instance) writeAdjustments() error {
	for name, text := range adjustments {
		if err := os.WriteFile(i.file(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("adjusting MiniStack: %w", err)
		}
	}

	return nil
}

// settings configures MiniStack itself. All of it stays in the scratch folder.
func (i *instance) settings() []string {
	return []string{
		"GATEWAY_PORT=" + strconv.Itoa(i.port),
		"TMPDIR=" + i.scratch,
		"PYTHONPATH=" + i.scratch,
		// Every request is judged by the caller's policies: functions hold sessions of their roles. The
		// account number as access key is the account's root, which deploys and runs the tests.
		"AUTH=true",
		// Without TLS, AUTH refuses whatever a policy with aws:SecureTransport guards.
		"USE_SSL=1",
		"MINISTACK_SSL_CERT=" + i.cert.CertFile,
		"MINISTACK_SSL_KEY=" + i.cert.KeyFile,
		// Lambda waits one and two minutes before it repeats a failed event; MiniStack as many seconds.
		"LAMBDA_ASYNC_RETRY_BASE_SECONDS=1",
		// Each instance of a function is a process, and its default limit follows the machine's memory.
		"LAMBDA_ACCOUNT_CONCURRENCY=40",
		"PYTHONUNBUFFERED=1",
	}
}

func (i *instance) url() string {
	return "https://localhost:" + strconv.Itoa(i.port)
}

// environment is this process's environment with every AWS setting replaced: no profile, file, proxy or
// instance role of the machine can lead a command to a real account.
func (i *instance) environment() []string {
	env := make([]string, 0, len(os.Environ()))
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "AWS_") && !strings.HasPrefix(entry, "CDK_") {
			env = append(env, entry)
		}
	}

	return append(env,
		"AWS_ENDPOINT_URL="+i.url(),
		"AWS_ENDPOINT_URL_S3="+i.url(),
		"AWS_ACCESS_KEY_ID=000000000000",
		"AWS_SECRET_ACCESS_KEY=test",
		"AWS_REGION=us-east-1",
		"AWS_DEFAULT_REGION=us-east-1",
		"AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CA_BUNDLE="+i.cert.CertFile,
		"NODE_EXTRA_CA_CERTS="+i.cert.CertFile,
		"NO_PROXY=localhost,127.0.0.1",
		"no_proxy=localhost,127.0.0.1",
	)
}

// awaitAnswer asks for the health page until it comes.
func (i *instance) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: i.cert.Pool, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, &client, i.url()+"/_ministack/health") {
			return nil
		}
		select {
		case <-i.ended:
			return errors.Join(errors.New("MiniStack ended before it answered"), i.result)
		case <-ctx.Done():
			return fmt.Errorf("MiniStack did not answer at %s: %w", i.url(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()

	return response.StatusCode == http.StatusOK
}

// stop ends MiniStack and the functions it runs, all in one process group, and removes what it wrote.
func (i *instance) stop() error {
	var errs []error
	if i.cmd != nil && i.cmd.Process != nil {
		errs = append(errs, signalGroup(i.cmd, syscall.SIGTERM))
		select {
		case <-i.ended:
		case <-time.After(stopLimit):
		}
		errs = append(errs, signalGroup(i.cmd, syscall.SIGKILL))
	}
	if i.log != nil {
		errs = append(errs, i.log.Close())
	}

	return errors.Join(append(errs, os.RemoveAll(i.scratch))...)
}

// freePort is the wanted port if nobody listens there, else any free one.
func freePort(ctx context.Context, wanted int) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil {
		listener, err = config.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("finding a free port: %v is no TCP address", listener.Addr())
	}

	return address.Port, nil
}
