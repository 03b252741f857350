/* An answer of the standard's RMPP: throughput.h.
 * usage: engine_rmpp_throughput_test [BYTES [SEED]] */
#include "rmpp_run.h"

#include "throughput.h"

static void measure(uint32_t window, uint32_t loss_ppm, struct throughput *t)
{
	const struct mad_path_config path = { .delay_ns = DELAY_NS, .each_ns = EACH_NS, .loss_ppm = loss_ppm,
					      .seed = first_seed };
	const struct rmpp_config config = { .window = window, .ack_ns = WTIME_MS };	/* how long an ACK is awaited */
	struct run r;

	begin(&r, &path, &config, answer_bytes);
	go(&r);
	assert_int_equal(r.out, RMPP_DONE);
	assert_true(is_exact(&r));
	*t = (struct throughput){ answer_bytes * 1000000ull / r.now, r.path.sent[0], r.path.sent[1] };
	end(&r);
}

int main(int argc, char **argv)
{
	return throughput_main(argc, argv, 2 << 20);
}
