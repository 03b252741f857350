/* An answer of the seed's administration: throughput.h.
 * usage: engine_series_throughput_test [BYTES [SEED]] */
#include "series_run.h"

#include "throughput.h"

/* A flight is said to be 16 us, and an end to take 262 us. */
enum { SUBNET_TIMEOUT = 2, RESPONSE_TIME = 6 };

static void measure(uint32_t window, uint32_t loss_ppm, struct throughput *t)
{
	const struct mad_path_config path = { .delay_ns = DELAY_NS, .each_ns = EACH_NS, .loss_ppm = loss_ppm, .seed = first_seed,
					      .fault_at = { -1, -1 } };
	const struct series_config config = { .subnet_timeout = SUBNET_TIMEOUT, .response_time = RESPONSE_TIME, .retries = 7 };
	struct run r;
	wtime took;

	begin(&r, &path, &config, TXN_GET_TABLE, (uint16_t)window, 0, answer_bytes);
	took = go_until_answered(&r);
	assert_int_equal(r.end[0].phase, TXN_DONE);
	assert_true(has_answer(&r));
	*t = (struct throughput){ answer_bytes * 1000000ull / took, r.path.sent[1], r.path.sent[0] };
	end(&r);
}

int main(int argc, char **argv)
{
	return throughput_main(argc, argv, 256 << 10);
}
